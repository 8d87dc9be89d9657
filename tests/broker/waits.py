"""Waits for the results of a pool."""

import time

from neuro_cli.pool.base import Pool, WorkResult


def all_results(pool: Pool, count: int, seconds: float = 60.0) -> dict[str, WorkResult]:
    """``count`` results by id; fails when one comes twice or too few come."""
    found: dict[str, WorkResult] = {}
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} results; {pool.facts()}"
        for result in pool.results(1.0):
            assert result.id not in found, f"the result of {result.id} came twice"
            found[result.id] = result
    return found
