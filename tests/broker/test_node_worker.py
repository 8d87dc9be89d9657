"""A worker and a model in JavaScript beside those in Python: the `.proto` files are all that they know."""

import json
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from secured import open_to
from waits import all_results, until

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto.broker_pb2_grpc import SubmissionStub
from neuro_cli.pool.base import WorkUnit

SCRIPTS = Path(__file__).parents[2] / "scripts"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
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


@pytest.mark.slow  # by default a model in JavaScript has such workers too
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


def test_a_model_in_javascript_has_work_done_in_two_languages(cluster, pool, node_worker):
    """Darts are the same to the bit in both; the regression only Node.js has, which trains it by an evolution strategy."""
    cluster.start_broker("broker", attempts=1)
    until(lambda: pool.facts()["workers"] == 1)
    pool._timeout = 0.5
    pool.submit([WorkUnit("slow", "noop", {"seconds": 600}), WorkUnit("wrong", "logistic", {"inputs": [[1]], "targets": []})])
    found = all_results(pool, 2)
    assert found["slow"].error == "the task took longer than its 0.5 s"
    assert found["wrong"].error.startswith("Error: inputs and targets differ in number")
    cluster.start_worker("python", more_kinds={"Darts": f"{EXAMPLES / 'monte_carlo.py'}:Darts"})
    until(lambda: pool.facts()["workers"] == 2)
    told = subprocess.run(
        [NODE, str(SCRIPTS / "model.js"), "0.002", cluster.nameserver, str(cluster.certificates)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    darts, trained = answer["darts"], answer["trained"]
    assert darts["error"] <= 0.002
    assert darts["inside"] == sum(thrown(seed) for seed in range(darts["total"] // 20_000))
    assert {name.split()[0] for name in darts["workers"]} == {"python", "node"}
    assert trained["worker"].startswith("node ")
    value = trained["value"]
    assert value["began"] == {"loss": pytest.approx(0.6931471805599453), "accuracy": 0}
    assert value["loss"] < 0.3
    assert value["accuracy"] > 0.95
    x, y, bias = value["weights"]
    assert (x / -y, bias / x) == (pytest.approx(2, abs=0.6), pytest.approx(0.15, abs=0.1))  # the line is 2 x - y + 0.3


DARTS = runpy.run_path(str(EXAMPLES / "monte_carlo.py"))["Darts"]


def thrown(seed: int) -> int:
    return DARTS(seed, 20_000).run()["inside"]


@pytest.mark.slow
def test_a_model_in_javascript_goes_on_at_another_broker(cluster, node_worker):
    """The broker that has its tasks is killed, and does not come back."""
    cluster.start_broker("first")
    model = subprocess.Popen(
        [NODE, str(SCRIPTS / "model.js"), "0.0008", cluster.nameserver, str(cluster.certificates)], stdout=subprocess.PIPE
    )
    try:
        address = cluster.members["first"].config["broker"]["address"]
        with open_to(address, cluster.certificates) as channel:
            until(lambda: SubmissionStub(channel).Status(messages.StatusRequest(), timeout=5).finished > 20)
        cluster.members.pop("first").process.kill()
        cluster.start_broker("second")
        text, _ = model.communicate(timeout=300)
    finally:
        model.kill()
        model.wait()
    darts = json.loads(text)["darts"]
    assert darts["inside"] == sum(thrown(seed) for seed in range(darts["total"] // 20_000))
