"""The process of a task: what passes between it and its owner, and its ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping

import pytest
from support.worlds import alive, descendants, needs_mpi, wait_for_end
from trouble import TROUBLE

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.worker.attempt import (
    ERROR_BYTES,
    HEAD_BYTES,
    LENGTHS,
    SAME_AGAIN,
    Attempt,
    Ending,
    FrameError,
    attempt_of,
    failed,
    framed,
    next_frame,
)
from neuro_cli.broker.worker.child import run
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.broker.worker.process import TaskProcess

LIMIT = 10**6


def given(kind: str, payload: bytes = b"{}") -> messages.Task:
    return messages.Task(kind=kind, payload=payload, timeout_seconds=60.0)


def run_all(
    work: Callable[[TaskProcess], Awaitable[None]],
    memory: int | None = None,
    kinds: Mapping[str, str] = KINDS | TROUBLE,
    ranks: int = 1,
) -> None:
    """Run ``work`` with a process of the tests' kinds, which is closed at the end."""

    async def whole() -> None:
        process = TaskProcess(kinds, LIMIT, memory, ranks=ranks)
        try:
            async with asyncio.timeout(300):
                await work(process)
        finally:
            await process.close()

    asyncio.run(whole())


def test_a_process_that_a_task_leaves_behind_does_not_keep_its_end_from_the_owner():
    """It holds the pipe of the errors open, in a session of its own that the owner's SIGKILL does not reach."""

    async def work(process: TaskProcess) -> None:
        attempt = await process.run(given("leave"))
        assert attempt is not None
        text, _, left = attempt.error.partition("; it last wrote: ")
        assert (attempt.ending, text) == (Ending.CRASHED, "the task's process ended with exit code 3")
        try:
            assert alive(int(left))
            done = await process.run(given("noop"))
            assert done is not None
            assert done.ending == Ending.DONE
        finally:
            os.kill(int(left), signal.SIGKILL)

    run_all(work)


def test_what_a_task_writes_into_the_pipe_is_bounded_and_ends_it():
    written = (
        b"\xff" * LENGTHS.size,  # a message of 8 GB
        LENGTHS.pack(2, LIMIT + 1),
        LENGTHS.pack(2, 0) + b"[]",
        LENGTHS.pack(5000, 0) + b"[" * 5000,
        framed({"ending": "LOST", "error": "", "seconds": 0.0}, b""),
        framed({"ending": "DONE", "error": "", "seconds": float("inf")}, b""),
    )

    async def work(process: TaskProcess) -> None:
        for words in written:
            attempt = await process.run(given("forge", json.dumps({"words": words.hex()}).encode()))
            assert attempt is not None
            assert (attempt.ending, attempt.error) == (Ending.CRASHED, "the task wrote into the pipe of its worker")
            assert process.pid is None

    run_all(work)


def test_memory_counts_the_processes_that_a_task_starts():
    async def work(process: TaskProcess) -> None:
        attempt = await process.run(given("grow_elsewhere", b'{"mib": 300}'))
        assert attempt is not None
        assert (attempt.ending, attempt.error) == (Ending.OUT_OF_MEMORY, "the task needed more than worker.memory=200 MiB")

    run_all(work, 200)


def test_an_abandoned_task_has_no_attempt_and_leaves_no_process():
    async def work(process: TaskProcess) -> None:
        task = asyncio.create_task(process.run(given("nap", b'{"seconds": 600}')))
        while process.pid is None:
            await asyncio.sleep(0.01)
        pid = process.pid
        process.abandon()
        assert await task is None
        assert not alive(pid)

    run_all(work)


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=[pytest.mark.slow, needs_mpi])])
def test_all_processes_end_with_their_killed_owner(ranks):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(ranks)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline()
    left = descendants(owner.pid)
    assert len(left) >= ranks
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for_end(left)


OWNER = """
import asyncio, sys
from neuro_cli.broker.proto.broker_pb2 import Task
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.broker.worker.process import TaskProcess

async def work():
    process = TaskProcess(KINDS, 1000, None, ranks=int(sys.argv[1]))
    await process.run(Task(kind="noop", payload=b"{}"))
    print("ready", flush=True)
    await process.run(Task(kind="noop", payload=b'{"seconds": 600}'))

asyncio.run(work())
"""


def test_an_attempt_is_the_same_on_the_other_side():
    for attempt in (
        Attempt(Ending.DONE, b"\xff{}", seconds=1.5),
        failed(Ending.RAISED, "x" * 2 * ERROR_BYTES, 0.0),
        failed(Ending.RAISED, "\ud800 \x00 \u20ac" * ERROR_BYTES, 0.0),
    ):
        assert asyncio.run(read(framed(*attempt.frame()))) == attempt
        assert len(attempt.error.encode()) <= ERROR_BYTES


async def read(text: bytes) -> Attempt:
    reader = asyncio.StreamReader()
    reader.feed_data(text)
    reader.feed_eof()
    return attempt_of(await next_frame(reader, LIMIT))


def test_a_torn_message_is_the_end_of_the_stream():
    text = framed(*Attempt(Ending.DONE, b"{}", seconds=1.5).frame())
    for length in range(len(text)):
        with pytest.raises(asyncio.IncompleteReadError):
            asyncio.run(read(text[:length]))


def test_a_head_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(FrameError, match=f"{HEAD_BYTES} and {LIMIT} are allowed"):
        asyncio.run(read(LENGTHS.pack(HEAD_BYTES + 1, 0)))


def test_endings_are_those_of_the_contract():
    lost_by_brokers = {"OUTCOME_UNSPECIFIED", "LOST"}
    assert {*Ending, *lost_by_brokers} == set(messages.Outcome.keys())
    assert set(SAME_AGAIN) < set(Ending)


@pytest.mark.parametrize(
    ("kind", "payload", "ending", "error"),
    [
        ("noop", b"[]", Ending.RAISED, "the task's payload must be a JSON object, not list"),
        ("nosuch", b"{}", Ending.UNKNOWN_KIND, "the task's type 'nosuch' is unknown to this worker; it knows candidate"),
        ("noop", b"{", Ending.RAISED, "Traceback"),
        ("large", b'{"bytes": 1000001}', Ending.TOO_LARGE, "the result has 1000013 bytes, 1000000 are allowed"),
        ("leave_by_exit", b"{}", Ending.RAISED, "Traceback"),
    ],
)
def test_what_a_task_raises_is_in_its_attempt(kind, payload, ending, error):
    attempt = run(kind, payload, KINDS | TROUBLE, LIMIT)
    assert attempt.ending == ending
    assert attempt.error.startswith(error)


def test_nothing_of_a_cluster_is_imported_in_a_process_of_tasks():
    """It starts in a fraction of the time."""
    names = "{'grpc', 'google.protobuf', 'cryptography', 'torch'}"
    code = f"import sys, neuro_cli.broker.worker.child; sys.exit(str({names} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "set()"
