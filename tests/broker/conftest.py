"""Clusters of real processes: one that the tests of a file share, and one for a test that may kill its processes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="the extra `search` is not installed")

from secured import pool_of
from trouble import TROUBLE

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.pool.broker import BrokerPool


@pytest.fixture(autouse=True)
def _user_folder(tmp_path_factory, monkeypatch) -> None:
    """Certificates and tokens of runs are kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


@pytest.fixture(scope="module", autouse=True)
def _kinds_of_the_tests() -> Iterator[None]:
    """Workers find the module ``trouble``."""
    with pytest.MonkeyPatch.context() as patch:
        here = str(Path(__file__).parent)
        patch.setenv("PYTHONPATH", os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part))
        yield


@pytest.fixture(scope="module")
def service(tmp_path_factory) -> Iterator[Cluster]:
    """Nameserver, ``broker`` and ``worker``, one process of tasks, for tests that end none of them."""
    made = Cluster(tmp_path_factory.mktemp("service"))
    made.start_nameserver()
    made.start_broker("broker", unknown_kind_after=0.5, attempts=2)
    made.start_worker("worker", more_kinds=TROUBLE, memory=200)
    yield made
    made.close()


@pytest.fixture
def client(service) -> Iterator[BrokerPool]:
    """A pool on the shared cluster."""
    made = pool_of(service, patience=60.0)
    yield made
    made.close()


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    """A cluster that has a nameserver, for one test."""
    made = Cluster(tmp_path / "cluster")
    made.start_nameserver()
    yield made
    made.close()


@pytest.fixture
def pool(cluster) -> Iterator[BrokerPool]:
    made = pool_of(cluster, patience=60.0)
    yield made
    made.close()
