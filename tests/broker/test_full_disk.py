"""A broker with a full disk: nothing is let go before it is stored, and all results come when there is room again."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from secured import TOKEN, open_to
from support.pools import all_results
from support.waiting import until

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.wire import SUBMISSION, Stub
from neuro_cli.pool.base import WorkUnit

MIB = 2**20


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
def test_a_broker_with_a_full_disk_stops_and_all_results_come_when_there_is_room_again(cluster, pool, tmp_path, capfd):
    with small_disk(tmp_path / "small") as small:
        address = cluster.start_broker("broker", folder=str(small / "broker"), worker_timeout=30.0)
        cluster.start_worker("worker")
        pool.submit([WorkUnit(str(number), "noop", {"seconds": 0.1, "echo": "x" * 1000}) for number in range(40)])
        filler = small / "filler"
        fill(filler)
        with open_to(address, cluster.certificates) as channel:
            stub = Stub(SUBMISSION, channel)
            wide = messages.Task(run="other", id="1", kind="noop", payload=b'{"echo": "%s"}' % (b"x" * 100_000))
            found: set[str] = set()
            until(lambda: submitted(stub, wide) == "UNAVAILABLE")
            for _ in range(3):
                fill(filler)
                found |= {one.id for one in pool.results(0.5)}
            assert len(found) < 40  # the disk was full in time
            assert submitted(stub, wide) == "UNAVAILABLE"
            assert cluster.members["broker"].process.poll() is None
            filler.unlink()
            found |= all_results(pool, 40 - len(found)).keys()
            assert found == {str(number) for number in range(40)}
            until(lambda: submitted(stub, wide) == "OK")
            until(lambda: stub.Status(messages.StatusRequest(), timeout=100).running == 0)
            assert stub.Status(messages.StatusRequest(), timeout=100).dead == 0
        assert cluster.stop("broker") == 0
    said = capfd.readouterr().err
    assert "Traceback" not in said, said
    assert "disk is full: the broker stops, and serves again when changes can be stored" in said


def fill(file: Path) -> None:
    """Write until there is no room left."""
    with file.open("ab", buffering=0) as rest:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    rest.write(bytes(size))
            except OSError:
                pass


def submitted(stub: Stub, one: messages.Task) -> str:
    try:
        stub.Submit(messages.SubmitRequest(tasks=[one], token=TOKEN), timeout=100)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"
