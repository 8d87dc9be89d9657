"""Nameserver, brokers, workers and pool as real processes on this machine."""

import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from secured import TOKEN, address_of, open_to, pool_of
from support.inside import neuro_inside, one_line
from support.pools import all_results
from support.waiting import until
from trouble import TROUBLE

from neuro_cli.broker.local_cluster import Cluster
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.wire import SUBMISSION, Stub
from neuro_cli.core.errors import UserError
from neuro_cli.pool.base import WorkUnit


def noops(count: int, first: int = 0, **payload) -> list[WorkUnit]:
    return [WorkUnit(f"n{number}", "noop", payload | {"echo": number}) for number in range(first, first + count)]


def status(cluster: Cluster, address: str) -> messages.StatusReply:
    with open_to(address, cluster.certificates) as channel:
        return Stub(SUBMISSION, channel).Status(messages.StatusRequest(), timeout=100)


def test_whatever_a_task_does_costs_that_task_alone(service, client, tmp_path):
    """One worker with one process: after every disaster the next task is done."""
    client._timeout = 20.0
    client.submit([*noops(3), WorkUnit("unknown", "nosuch", {}), WorkUnit("wrong", "noop", {"seconds": "private"})])
    client.submit([WorkUnit("crash", "crash", {}), WorkUnit("crash_once", "crash_once", {"mark": str(tmp_path / "mark")})])
    client.submit([WorkUnit("grow", "grow", {"mib": 300, "seconds": 20}), WorkUnit("large", "large", {"bytes": 5 * 2**20})])
    client.submit([WorkUnit("chatty", "chatty", {})])
    client._timeout = 0.5
    client.submit([WorkUnit("slow", "nap", {"seconds": 30})])
    found = all_results(client, 11)
    assert [found[f"n{number}"].payload["echo"] for number in range(3)] == [0, 1, 2]
    assert found["crash_once"].payload == {"attempt": 2}
    assert found["chatty"].payload == {"read": ""}
    errors = {name: result.error for name, result in found.items() if result.error}
    assert "ValueError: could not convert string to float: 'private'" in errors["wrong"]
    assert errors["wrong"].startswith("Traceback")
    assert errors["unknown"].startswith("the task's type 'nosuch' is unknown to the workers; they know candidate, chatty")
    assert errors["crash"].startswith("the task's process ended with signal SIGSEGV; it last wrote: last words")
    assert errors["grow"] == "the task needed more than worker.memory=200 MiB"
    assert errors["slow"] == "the task took longer than its 0.5 s"
    assert errors["large"].startswith("the result has ")
    with open_to(address_of(service), service.certificates) as channel:
        letters = Stub(SUBMISSION, channel).DeadLetters(messages.DeadLettersRequest(), timeout=100).letters
    ours = [letter for letter in letters if letter.task.run == client.run]
    assert {letter.task.id: letter.attempts for letter in ours} == {
        "wrong": 1, "unknown": 0, "crash": 2, "grow": 1, "slow": 2, "large": 1,
    }  # fmt: skip
    assert {letter.task.payload for letter in ours} == {b""}  # it is for its submitter alone
    shown = ("--certificates", str(service.certificates), "--dead", "9")
    said = neuro_inside("search", "status", service.nameserver, *shown, cwd=tmp_path).stdout
    assert "(noop) of run" in said
    assert "RAISED after 1 attempts\n    Traceback" in said
    assert "ValueError: could not convert string to float: 'private'" in said
    with pytest.raises(UserError, match=r"its payload has \d+ bytes, pool\.message_bytes allows"):
        client.submit([WorkUnit("fat", "noop", {"echo": "x" * 5 * 2**20})])


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


def test_brokers_take_over_and_share_what_only_one_of_them_got(cluster, pool, monkeypatch):
    monkeypatch.setattr("neuro_cli.broker.client.submitter.RETURN_SECONDS", 0.5)
    first = cluster.start_broker("broker 1")
    pool.submit(noops(20))  # no worker exists yet
    second = cluster.start_broker("broker 2")
    assert status(cluster, first).waiting == 20
    cluster.members["broker 1"].process.kill()
    cluster.start_worker("worker 0")
    assert len(all_results(pool, 20)) == 20
    assert status(cluster, second).finished == 20
    cluster.revive()  # with 20 tasks that nobody waits for any more
    until(lambda: status(cluster, first).waiting == 0)
    assert pool.results(0.3) == []
    cluster.start_worker("worker 1")  # takes the broker with fewer workers
    # a broker that waits for a worker's beat, or has not yet missed one, counts it still
    until(lambda: [len(status(cluster, address).workers) for address in (first, second)] == [1, 1])
    until(lambda: pool.facts()["workers"] == 2)
    for place in range(20, 1520, 150):  # a busy machine may keep a worker waiting for most of a batch
        pool.submit(noops(150, first=place, seconds=0.02))
        found = all_results(pool, 150)
        shares = [sum(result.worker == f"worker {number}" for result in found.values()) for number in range(2)]
        if min(shares) > 15:
            return
    raise AssertionError(shares)


def test_models_wait_for_room_and_workers_come_and_go_without_a_loss(cluster, pool, tmp_path):
    address = cluster.start_broker("broker", queue_limit=10)
    with open_to(address, cluster.certificates) as channel:
        stub = Stub(SUBMISSION, channel)
        tasks = [messages.Task(run="other", id=str(number), kind="noop") for number in range(12)]
        assert stub.Submit(messages.SubmitRequest(tasks=tasks, token=TOKEN), timeout=100).accepted == 10
        with pytest.raises(grpc.RpcError) as refused:
            stub.Submit(messages.SubmitRequest(tasks=tasks[10:], token=TOKEN), timeout=100)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    cluster.start_worker("worker", children=2, more_kinds=TROUBLE)
    pool.submit(noops(300))  # returns when the last one found room
    assert status(cluster, address).waiting <= 10
    all_results(pool, 300)  # short ones, of which a worker then fetches some ahead
    pool.submit([WorkUnit(name, "wait", {"file": str(tmp_path / "go")}) for name in ("long", "too")])
    pool.submit(noops(8, first=300))
    cluster.start_worker("another", more_kinds=TROUBLE)
    assert all_results(pool, 8).keys() == {f"n{number}" for number in range(300, 308)}  # none waits behind a long one
    process = cluster.members["worker"].process
    process.terminate()
    until(lambda: {one.name: one.capacity for one in status(cluster, address).workers}["worker"] == 0)
    (tmp_path / "go").touch()
    assert process.wait(60) == 0  # it ends with its two tasks
    assert {result.worker for result in all_results(pool, 2).values()} == {"worker"}
    pool.submit(noops(3, first=308))
    assert {result.worker for result in all_results(pool, 3).values()} == {"another"}


def test_servers_say_their_health_and_their_services(service):
    for server, name in ((service.nameserver, "neuro.v1.Nameserver"), (address_of(service), "neuro.v1.Work")):
        with open_to(server, service.certificates) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=100)
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            assert name in ProtoReflectionDescriptorDatabase(channel).get_services()


def test_a_model_that_returns_takes_up_its_run(service):
    first = pool_of(service, run="mine")
    first.submit([WorkUnit(str(number), "nap", {"seconds": 0.3}) for number in range(3)])
    first._loop.stop()  # as a kill does: nothing is said to the broker
    until(lambda: status(service, address_of(service)).undelivered == 3)
    second = pool_of(service, run="mine")
    second.submit([WorkUnit(str(number), "nap", {"seconds": 0.3}) for number in range(4)])
    assert len(all_results(second, 4)) == 4
    second.close()


def test_commands_of_a_cluster_take_bad_input_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("neuro_cli.broker.nameserver.client.CONNECT_SECONDS", 0.2)
    said = [one_line(neuro_inside("search", *line.split(), cwd=tmp_path)) for line in ("status here", "status --x", "certs")]
    assert said[0] == "HOST:PORT=here: must be host:port, for example 127.0.0.1:7700"
    assert "usage: neuro search status" in said[1]
    assert "usage: neuro search certs FOLDER" in said[2]
    assert one_line(neuro_inside("search", "status", "127.0.0.1:9", cwd=tmp_path)).startswith(
        "nameserver.address=127.0.0.1:9: no answer (UNAVAILABLE: "
    )
