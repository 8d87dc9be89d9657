"""A cluster of real processes for the tests of a module, and what they ask of it."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the extra `search` is not installed")

from neuro_cli.broker.broker_pool import BrokerPool
from neuro_cli.broker.cluster import Cluster
from neuro_cli.broker.pool import Pool, Result


@pytest.fixture(scope="module", autouse=True)
def _kinds_of_the_tests() -> Iterator[None]:
    """Workers find the module ``trouble``."""
    with pytest.MonkeyPatch.context() as patch:
        here = str(Path(__file__).parent)
        patch.setenv("PYTHONPATH", os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part))
        yield


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster")
    made.start_nameserver()
    yield made
    made.close()


@pytest.fixture
def pool(cluster) -> Iterator[BrokerPool]:
    made = BrokerPool(cluster.nameserver, patience=60.0)
    yield made
    made.close()


def all_results(pool: Pool, count: int, seconds: float = 60.0) -> dict[str, Result]:
    """``count`` results by id; fails when one comes twice or too few come."""
    found: dict[str, Result] = {}
    deadline = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} results; {pool.facts()}"
        for result in pool.results(1.0):
            assert result.id not in found, f"the result of {result.id} came twice"
            found[result.id] = result
    return found


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait for something; fails when it does not come."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
