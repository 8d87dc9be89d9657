"""A worker in JavaScript along with one in Python: the `.proto` files are all that it shares."""

import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from support.pools import all_results
from support.waiting import until

from neuro_cli.pool.base import WorkUnit

SCRIPTS = Path(__file__).parents[2] / "scripts"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DARTS = runpy.run_path(str(EXAMPLES / "monte_carlo.py"))["Darts"]
COUNT = 20_000  # darts of a task
NODE = shutil.which("node") or ""


def missing() -> str:
    """Why it cannot run here."""
    if not NODE:
        return "no node on PATH"
    asked = subprocess.run([NODE, "-e", "require('@grpc/grpc-js')"], cwd=SCRIPTS, capture_output=True, timeout=60)
    return "no @grpc/grpc-js: npm install --prefix scripts" if asked.returncode else ""


@pytest.fixture
def node_worker(request):
    if reason := missing():
        pytest.skip(reason)
    cluster = request.getfixturevalue("cluster")
    process = subprocess.Popen([NODE, str(SCRIPTS / "worker.js"), cluster.nameserver, str(cluster.certificates)])
    yield process
    process.kill()
    process.wait()


def test_workers_in_two_languages_share_a_run(node_worker, cluster, pool):
    """Darts are the same to the bit in both."""
    cluster.start_broker("broker")
    cluster.start_worker("python", more_kinds={"Darts": f"{EXAMPLES / 'monte_carlo.py'}:Darts"})
    until(lambda: pool.facts()["workers"] == 2)
    pool.submit([WorkUnit(str(number), "noop", {"echo": {"number": number}, "seconds": 0.02}) for number in range(100)])
    results = all_results(pool, 100)
    assert {int(name): result.payload["echo"] for name, result in results.items()} == {n: {"number": n} for n in range(100)}
    assert {result.worker.split()[0] for result in results.values()} == {"python", "node"}
    pool.submit([WorkUnit(f"darts {seed}", "Darts", {"seed": seed, "count": COUNT}) for seed in range(40)])
    darts = all_results(pool, 40)
    assert [darts[f"darts {seed}"].payload["inside"] for seed in range(40)] == [
        DARTS(seed, COUNT).run()["inside"] for seed in range(40)
    ]
    pool.submit([WorkUnit("last", "noop", {"seconds": 0.3})])
    until(lambda: pool.facts()["running"] or pool.facts()["waiting"] == 0)
    node_worker.terminate()
    assert node_worker.wait(60) == 0
    assert not all_results(pool, 1)["last"].error


def test_a_task_that_takes_too_long_or_raises_has_an_error(node_worker, cluster, pool):
    cluster.start_broker("broker", attempts=1)
    until(lambda: pool.facts()["workers"] == 1)
    pool._timeout = 0.5
    pool.submit([WorkUnit("slow", "noop", {"seconds": 600}), WorkUnit("wrong", "Darts", b"no JSON")])
    results = all_results(pool, 2)
    assert results["slow"].error == "the task took longer than its 0.5 s"
    assert results["wrong"].error.startswith("SyntaxError")
