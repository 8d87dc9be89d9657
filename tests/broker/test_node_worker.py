"""A worker in JavaScript beside those in Python: the `.proto` files are all that it knows."""

import shutil
import subprocess
from pathlib import Path

import pytest
from waits import all_results, until

from neuro_cli.pool.base import WorkUnit

SCRIPTS = Path(__file__).parents[2] / "scripts"
NODE = shutil.which("node") or ""


def missing() -> str:
    """Why it cannot run here."""
    if not NODE:
        return "no node on PATH"
    asked = subprocess.run([NODE, "-e", "require('@grpc/grpc-js')"], cwd=SCRIPTS, capture_output=True, timeout=60)
    return "no @grpc/grpc-js: npm install --prefix scripts" if asked.returncode else ""


@pytest.fixture
def node_worker(cluster):
    if reason := missing():
        pytest.skip(reason)
    process = subprocess.Popen([NODE, str(SCRIPTS / "worker.js"), cluster.nameserver, str(cluster.certificates)])
    yield process
    process.kill()
    process.wait()


def test_workers_in_two_languages_share_a_run(cluster, pool, node_worker):
    cluster.start_broker("broker")
    cluster.start_worker("python")
    until(lambda: pool.facts()["workers"] == 2)
    pool.submit([WorkUnit(str(number), "noop", {"echo": {"number": number}, "seconds": 0.02}) for number in range(100)])
    found = all_results(pool, 100)
    assert {int(name): result.payload["echo"] for name, result in found.items()} == {n: {"number": n} for n in range(100)}
    whose = [result.worker.split()[0] for result in found.values()]
    assert set(whose) == {"python", "node"}
    pool.submit([WorkUnit("last", "noop", {"seconds": 0.3})])
    until(lambda: pool.facts()["running"] or pool.facts()["waiting"] == 0)
    node_worker.terminate()
    assert node_worker.wait(10) == 0
    assert not all_results(pool, 1)["last"].error
