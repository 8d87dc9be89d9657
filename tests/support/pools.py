"""Tasks for pools, and their results."""

import time

from neuro_cli.pool.base import Pool, WorkResult, WorkUnit


def task(name: str, seconds: float = 0.0, kind: str = "noop") -> WorkUnit:
    """Return a task that answers its name after a while."""
    return WorkUnit(name, kind, {"seconds": seconds, "echo": name})


def collected(pool: Pool, count: int) -> dict[str, WorkResult]:
    """Return ``count`` results by their task; none comes twice."""
    results: dict[str, WorkResult] = {}
    deadline = time.monotonic() + 240
    while len(results) < count and time.monotonic() < deadline:
        for result in pool.results(1.0):
            assert result.id not in results
            results[result.id] = result
    assert len(results) == count
    assert pool.results(0.0) == []
    return results
