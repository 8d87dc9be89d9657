"""Nameserver, brokers, workers and pool as real processes on this machine."""

import os
import signal
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from secured import TOKEN, open_to, pool_of
from support.inside import neuro_inside, one_line
from trouble import TROUBLE
from waits import all_results, until

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto.broker_pb2_grpc import SubmissionStub
from neuro_cli.core.errors import UserError
from neuro_cli.pool.base import WorkUnit
from neuro_cli.pool.embedded import EmbeddedPool


def noops(count: int, first: int = 0, **payload) -> list[WorkUnit]:
    return [WorkUnit(f"n{number}", "noop", payload | {"echo": number}) for number in range(first, first + count)]


def status(cluster: Cluster, address: str) -> messages.StatusReply:
    with open_to(address, cluster.certificates) as channel:
        return SubmissionStub(channel).Status(messages.StatusRequest(), timeout=5)


def test_whatever_a_task_does_costs_that_task_alone(cluster, pool, tmp_path):
    """One worker with one process: after every disaster the next task is done."""
    broker = cluster.start_broker("broker", unknown_kind_after=0.5, attempts=2)
    cluster.start_worker("worker", more_kinds=TROUBLE, memory=200)
    pool._timeout = 20.0
    pool.submit(
        [
            *noops(3),
            WorkUnit("unknown", "nosuch", {}),
            WorkUnit("wrong", "noop", {"seconds": "x"}),
            WorkUnit("crash", "crash", {}),
        ]
    )
    pool.submit([WorkUnit("crash_once", "crash_once", {"mark": str(tmp_path / "mark")}), WorkUnit("chatty", "chatty", {})])
    pool.submit([WorkUnit("grow", "grow", {"mib": 300, "seconds": 20}), WorkUnit("large", "large", {"bytes": 5 * 2**20})])
    pool._timeout = 0.5
    pool.submit([WorkUnit("slow", "nap", {"seconds": 30})])
    found = all_results(pool, 11)
    assert [found[f"n{number}"].payload["echo"] for number in range(3)] == [0, 1, 2]
    assert found["crash_once"].payload == {"attempt": 2}
    assert found["chatty"].payload == {"read": ""}
    errors = {name: result.error for name, result in found.items() if result.error}
    assert "ValueError: could not convert string to float: 'x'" in errors["wrong"]
    assert errors["wrong"].startswith("Traceback")
    assert errors["unknown"].startswith("the task's type 'nosuch' is unknown to the workers; they know candidate, chatty")
    assert errors["crash"].startswith("the task's process ended with signal SIGSEGV; it last wrote: last words")
    assert errors["grow"] == "the task needed more than worker.memory=200 MiB"
    assert errors["slow"] == "the task took longer than its 0.5 s"
    assert errors["large"].startswith("the result has 5242892 bytes")
    assert errors.keys() == {"wrong", "unknown", "crash", "grow", "slow", "large"}
    with open_to(broker, cluster.certificates) as channel:
        letters = SubmissionStub(channel).DeadLetters(messages.DeadLettersRequest(), timeout=5).letters
    assert {letter.task.id: letter.attempts for letter in letters} == {
        "wrong": 1, "unknown": 0, "crash": 2, "grow": 1, "slow": 2, "large": 1,
    }  # fmt: skip
    shown = ("--certificates", str(cluster.certificates), "--dead", "9")
    told = neuro_inside("search", "status", cluster.nameserver, *shown, cwd=tmp_path).stdout
    assert "(noop) of run" in told
    assert "RAISED after 1 attempts\n    Traceback" in told
    assert "ValueError: could not convert string to float: 'x'" in told
    with pytest.raises(UserError, match=r"its payload has \d+ bytes, security\.message_bytes allows"):
        pool.submit([WorkUnit("fat", "noop", {"echo": "x" * 5 * 2**20})])


def test_nothing_is_lost_and_nothing_comes_twice_when_processes_are_killed(cluster, pool, tmp_path):
    """The broker, the nameserver and a worker by SIGKILL while 300 tasks are under way."""
    cluster.start_broker("broker")
    for number in range(2):
        cluster.start_worker(f"worker {number}", more_kinds=TROUBLE)
    file = str(tmp_path / "done")
    pool.submit([WorkUnit(str(number), "count", {"file": file, "number": number, "seconds": 0.005}) for number in range(300)])
    found = {result.id for result in pool.results(10.0)}
    for name in ("broker", "nameserver", "worker 0"):
        cluster.members[name].process.kill()
        cluster.members[name].process.wait()
        assert cluster.revive() == [name]
        found |= {result.id for result in pool.results(0.2)} - found
    more = all_results(pool, 300 - len(found))
    assert found.isdisjoint(more)
    assert found | more.keys() == {str(number) for number in range(300)}
    time.sleep(0.5)
    assert pool.results(0.1) == []
    assert {int(line) for line in Path(file).read_text().split()} == set(range(300))
    until(lambda: pool.facts()["brokers"] == 1)


def test_tasks_of_a_broker_that_does_not_come_back_are_sent_to_another(cluster, pool, monkeypatch):
    monkeypatch.setattr("neuro_cli.broker.client.submitter.RETURN_SECONDS", 0.5)
    first = cluster.start_broker("broker 1")
    pool.submit(noops(20))  # there is no worker yet
    second = cluster.start_broker("broker 2")
    assert status(cluster, first).waiting == 20
    cluster.members["broker 1"].process.kill()
    cluster.start_worker("worker")
    assert len(all_results(pool, 20)) == 20
    assert status(cluster, second).finished == 20
    cluster.revive()  # with 20 tasks that nobody waits for any more
    until(lambda: status(cluster, first).waiting == 0)
    assert pool.results(0.3) == []


def test_brokers_share_a_load_that_only_one_of_them_got(cluster, pool):
    addresses = [cluster.start_broker(f"broker {number}") for number in range(2)]
    for number in range(2):
        cluster.start_worker(f"worker {number}")
        until(lambda n=number: pool.facts()["workers"] == n + 1)  # the next one takes the broker with fewer
    assert [len(status(cluster, address).workers) for address in addresses] == [1, 1]
    pool.submit(noops(150, seconds=0.02))
    found = all_results(pool, 150)
    shares = [sum(result.worker == f"worker {number}" for result in found.values()) for number in range(2)]
    assert min(shares) > 30, shares


def test_a_drained_worker_loses_no_task(cluster, pool):
    cluster.start_broker("broker")
    cluster.start_worker("worker", children=2, more_kinds=TROUBLE)
    pool.submit([WorkUnit(str(number), "nap", {"seconds": 0.5}) for number in range(8)])
    until(lambda: pool.facts()["running"])
    begun = time.monotonic()
    assert cluster.stop("worker") == 0
    assert time.monotonic() - begun < 4.0  # it did not stay for all of them
    kept = pool.results(0.5)
    assert all(not result.error for result in kept)
    cluster.start_worker("another", more_kinds=TROUBLE)
    rest = all_results(pool, 8 - len(kept))
    assert {result.worker for result in rest.values()} == {"another"}


def test_no_task_waits_behind_a_long_one_while_a_worker_is_idle(cluster, pool):
    cluster.start_broker("broker")
    cluster.start_worker("first", more_kinds=TROUBLE)
    pool.submit(noops(300))
    all_results(pool, 300)  # short ones, of which a worker then fetches some ahead
    pool.submit([WorkUnit("long", "nap", {"seconds": 8}), *noops(20, first=300)])
    cluster.start_worker("second", more_kinds=TROUBLE)
    found = all_results(pool, 20, seconds=7.0)
    assert "long" not in found
    assert all_results(pool, 1).keys() == {"long"}


def test_commands_beside_the_search_take_bad_input_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("neuro_cli.broker.nameserver.client.CONNECT_SECONDS", 0.2)
    said = [one_line(neuro_inside("search", *line.split(), cwd=tmp_path)) for line in ("status here", "status --x", "certs")]
    assert said[0] == "HOST:PORT=here: must be host:port, for example 127.0.0.1:7700"
    assert "usage: neuro search status" in said[1]
    assert "usage: neuro search certs FOLDER" in said[2]
    assert one_line(neuro_inside("search", "status", "127.0.0.1:9", cwd=tmp_path)).startswith(
        "nameserver.address=127.0.0.1:9: no answer (UNAVAILABLE: "
    )


def test_a_full_broker_makes_the_model_wait(cluster, pool):
    address = cluster.start_broker("broker", queue_limit=10)
    with open_to(address, cluster.certificates) as channel:
        stub = SubmissionStub(channel)
        tasks = [messages.Task(run="other", id=str(number), kind="noop") for number in range(12)]
        assert stub.Submit(messages.SubmitRequest(tasks=tasks, token=TOKEN), timeout=5).accepted == 10
        with pytest.raises(grpc.RpcError) as refused:
            stub.Submit(messages.SubmitRequest(tasks=tasks[10:], token=TOKEN), timeout=5)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        cluster.start_worker("worker")
        pool.submit(noops(30))  # returns when the last one found room
        assert status(cluster, address).waiting <= 10
        assert len(all_results(pool, 30)) == 30


def test_servers_tell_their_health_and_their_services(cluster):
    address = cluster.start_broker("broker")
    for server, service in ((cluster.nameserver, "neuro.v1.Nameserver"), (address, "neuro.v1.Work")):
        with open_to(server, cluster.certificates) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            assert service in ProtoReflectionDescriptorDatabase(channel).get_services()


def test_a_model_that_comes_back_takes_up_its_run(cluster):
    cluster.start_broker("broker")
    first = pool_of(cluster, run="mine")
    first.submit(noops(5))
    first._loop.stop()  # as if it were killed: nothing is said to the broker
    cluster.start_worker("worker")
    address = cluster.members["broker"].config["broker"]["address"]
    until(lambda: status(cluster, address).undelivered == 5)
    second = pool_of(cluster, run="mine")
    second.submit(noops(6))
    assert len(all_results(second, 6)) == 6
    second.close()


def test_the_embedded_cluster_ends_with_its_pool_and_survives_its_broker():
    pool = EmbeddedPool(workers=1)
    pool.submit(noops(3))
    assert len(all_results(pool, 3)) == 3
    cluster = pool._cluster
    os.kill(cluster.members["broker"].process.pid, signal.SIGKILL)
    cluster.members["broker"].process.wait()
    pool.submit(noops(3, first=3))
    assert len(all_results(pool, 3)) == 3
    processes = [member.process for member in cluster.members.values()]
    pool.close()
    assert [process.poll() is None for process in processes] == [False] * 3
    assert not cluster.folder.exists()
