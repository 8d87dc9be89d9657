"""Tasks for pools, and their results."""

import time

from neuro_cli.pool.base import Pool, WorkResult, WorkUnit


def task(name: str, seconds: float = 0.0, kind: str = "noop") -> WorkUnit:
    """Return a task that answers its name after a while."""
    return WorkUnit(name, kind, {"seconds": seconds, "echo": name})


def all_results(pool: Pool, count: int, seconds: float = 240.0) -> dict[str, WorkResult]:
    """Return ``count`` results by their task; none comes twice."""
    found: dict[str, WorkResult] = {}
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} results; {pool.facts()}"
        for result in pool.results(1.0):
            assert result.id not in found, f"the result of {result.id} came twice"
            found[result.id] = result
    return found


def collected(pool: Pool, count: int) -> dict[str, WorkResult]:
    """Return ``count`` results by their task, which are all."""
    results = all_results(pool, count)
    assert len(results) == count
    assert pool.results(0.0) == []
    return results
