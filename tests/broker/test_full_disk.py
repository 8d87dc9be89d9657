"""A broker with a full disk: tasks are refused, nothing is let go before it is stored, all comes when there is room again."""

import os
import sqlite3
import subprocess
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from secured import TOKEN, open_to
from test_queues import Bench, got, result, task
from waits import all_results, until

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto.broker_pb2_grpc import SubmissionStub
from neuro_cli.broker.server.database import Database
from neuro_cli.broker.server.store import StoreError
from neuro_cli.pool.base import WorkUnit

MIB = 2**20


class Full:
    """A connection whose statements fail as on a full disk while ``full``."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self.full = db, False

    def execute(self, text: str, *values):
        if self.full and text.split()[0] in ("INSERT", "UPDATE", "DELETE", "COMMIT"):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._db.execute(text, *values)

    def __getattr__(self, name: str):
        return getattr(self._db, name)


@pytest.fixture
def disk(monkeypatch) -> Full:
    """The connection of the store that is made next."""
    made: list[Full] = []

    def opened(database: Database, durable: str) -> Full:
        made.append(Full(open_really(database, durable)))
        return made[-1]

    open_really = Database._opened
    monkeypatch.setattr(Database, "_opened", opened)

    class Last:
        def fill(self, full: bool) -> None:
            made[-1].full = full

    return Last()


@pytest.fixture
def bench(tmp_path, disk) -> Bench:
    made = Bench(tmp_path)
    yield made
    made.store.close()


def test_a_task_that_the_disk_does_not_take_is_refused_and_none_of_its_message(bench, disk, caplog):
    disk.fill(True)
    for _ in range(3):
        with pytest.raises(StoreError, match=r"tasks\.sqlite: database or disk is full"):
            bench.queues.submit([task(1), task(2)])
    disk.fill(False)
    worker = bench.worker(capacity=9)
    assert got(worker) == []
    assert bench.queues.submit([task(1), task(2)]) == 2
    assert got(worker) == ["1", "2"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]  # one line for all of them
    assert "database or disk is full" in caplog.text


@pytest.mark.parametrize("outcome", [messages.DONE, messages.RAISED, messages.CRASHED])
def test_an_outcome_that_the_disk_does_not_take_is_kept_until_it_does(bench, disk, outcome):
    worker = bench.worker()
    bench.queues.submit([task(1), task(2)])
    disk.fill(True)
    bench.tell(worker, results=[result(task(1), outcome, "why")])
    bench.tell(worker, capacity=9)
    bench.queues.sweep()
    assert got(worker) == ["1"]  # and no other task is given out, whose result would gather too
    assert (bench.results(), bench.store.letters(9), bench.queues.running) == ({}, [], 1)
    disk.fill(False)
    bench.queues.sweep()
    if outcome == messages.CRASHED:  # another attempt
        assert got(worker) == ["1", "2", "1"] or got(worker) == ["1", "1", "2"]
    else:
        assert got(worker) == ["1", "2"]
        assert bench.results()["1"].outcome == outcome
        assert len(bench.store.letters(9)) == (outcome == messages.RAISED)


def test_what_a_lost_worker_had_finished_is_not_done_again(bench, disk):
    worker = bench.worker()
    bench.queues.submit([task(1)])
    disk.fill(True)
    bench.tell(worker, started=[messages.TaskKey(run="r", id="1")])
    bench.tell(worker, results=[result(task(1))])
    bench.queues.disconnect(worker)
    other = bench.worker()
    disk.fill(False)
    bench.queues.sweep()
    assert bench.results()["1"].outcome == messages.DONE
    assert got(other) == []


def test_a_broker_that_ends_meanwhile_does_the_task_again(bench, disk):
    bench.queues.submit([task(1)])
    worker = bench.worker()
    disk.fill(True)
    bench.tell(worker, results=[result(task(1))])
    bench.again()
    assert got(bench.worker()) == ["1"]


def test_a_run_that_cannot_be_dropped_stays_whole(bench, disk):
    bench.queues.submit([task(1)])
    disk.fill(True)
    with pytest.raises(StoreError):
        bench.queues.drop("r")
    disk.fill(False)
    assert got(bench.worker()) == ["1"]
    assert bench.queues.drop("r") == 1


@contextmanager
def small_disk(folder: Path):
    """A file system of 4 MiB; skips where none can be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"no mount: {error}")
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system")
def test_all_results_come_when_a_full_disk_has_room_again(cluster, pool, tmp_path, capfd):
    with small_disk(tmp_path / "small") as small:
        address = cluster.start_broker("broker", folder=str(small / "broker"), worker_timeout=30.0)
        cluster.start_worker("worker")
        pool.submit([WorkUnit(str(number), "noop", {"seconds": 0.1, "echo": "x" * 1000}) for number in range(40)])
        filler = small / "filler"
        fill(filler)
        with open_to(address, cluster.certificates) as channel:
            stub = SubmissionStub(channel)
            wide = messages.Task(run="other", id="1", kind="noop", payload=b'{"echo": "%s"}' % (b"x" * 100_000))
            until(lambda: submitted(stub, wide) == "RESOURCE_EXHAUSTED")
            found = {one.id for one in pool.results(0.1)}
            for _ in range(5):
                fill(filler)
                found |= {one.id for one in pool.results(1.0)}
            assert len(found) < 40  # the disk was full in time
            assert submitted(stub, wide) == "RESOURCE_EXHAUSTED"
            filler.unlink()
            found |= all_results(pool, 40 - len(found)).keys()
            assert found == {str(number) for number in range(40)}
            until(lambda: submitted(stub, wide) == "OK")
            until(lambda: stub.Status(messages.StatusRequest(), timeout=5).running == 0)
            assert stub.Status(messages.StatusRequest(), timeout=5).dead == 0
        assert cluster.stop("broker") == 0
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert said.count("no task is taken or given out until changes can be stored again") == 1


def fill(file: Path) -> None:
    """Write until there is no room left."""
    with file.open("ab", buffering=0) as rest:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    rest.write(bytes(size))
            except OSError:
                pass


def submitted(stub: SubmissionStub, one: messages.Task) -> str:
    try:
        stub.Submit(messages.SubmitRequest(tasks=[one], token=TOKEN), timeout=5)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"
