"""``worker.ranks``: a task as an MPI job, whatever becomes of its ranks. "Individual clusters become the workers"."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest
from made_tasks import EveryByte, Ranks
from support.worlds import alive, descendants, needs_mpi

from neuro_cli.broker.local_cluster import cluster_config
from neuro_cli.broker.proto.broker_pb2 import Task
from neuro_cli.broker.settings import settings_of
from neuro_cli.broker.worker.attempt import Attempt, Ending
from neuro_cli.broker.worker.kinds import place_of
from neuro_cli.broker.worker.process import MemoryLimit, TaskProcess
from neuro_cli.core.errors import ConfigError

pytestmark = needs_mpi


def given(payload: bytes, kind: str = "Ranks") -> Task:
    return Task(payload=payload, kind=kind, timeout_seconds=120.0)


def run_all(work: Callable[[TaskProcess], Awaitable[None]], memory: MemoryLimit | None = None) -> None:
    """Run ``work`` with a process of two ranks, which is closed at the end."""

    async def whole() -> None:
        process = TaskProcess({task.kind: place_of(task) for task in (Ranks, EveryByte)}, 10**6, memory, ranks=2)
        try:
            async with asyncio.timeout(300):
                await work(process)
        finally:
            await process.close()

    asyncio.run(whole())


async def attempt(process: TaskProcess, *what: object) -> Attempt:
    made = await process.run(given(Ranks(*what).to_bytes()))  # type: ignore[arg-type]
    assert made is not None
    return made


async def gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(alive, pids)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def test_a_task_runs_on_all_ranks_of_one_mpi_job_and_rank_0_answers():
    async def work(process: TaskProcess) -> None:
        first, second = [Ranks.result_from_bytes((await attempt(process, "together")).payload) for _ in range(2)]
        assert first["size"] == 2
        assert len(set(first["pids"])) == 2
        assert first["pids"] == second["pids"]  # the job lives on
        assert first["text"] == "x\n\0\xff" * 50_000
        assert process.pid is not None
        assert set(first["pids"]) <= set(descendants(process.pid))
        both = await attempt(process, "fail", -1)
        assert both.ending == Ending.RAISED
        assert "all ranks have failed" in both.error
        assert (await attempt(process, "alone")).ending == Ending.DONE
        every = await process.run(given(EveryByte(300).to_bytes(), "EveryByte"))
        assert every is not None
        assert every.payload == EveryByte(300).run()
        await process.close()
        await gone(first["pids"])

    run_all(work)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("what", ["fail", "crash"])
def test_a_rank_that_is_lost_while_another_waits_for_it_costs_the_task_alone(rank, what):
    async def work(process: TaskProcess) -> None:
        pids = Ranks.result_from_bytes((await attempt(process, "together")).payload)["pids"]
        lost = await attempt(process, what, rank)
        assert lost.ending == Ending.CRASHED
        assert what == "crash" or f"rank {rank}: Traceback" in lost.error
        await gone(pids)
        assert (await attempt(process, "together")).ending == Ending.DONE

    run_all(work)


@pytest.mark.slow
def test_a_task_that_is_abandoned_leaves_no_rank():
    async def work(process: TaskProcess) -> None:
        pids = Ranks.result_from_bytes((await attempt(process, "together")).payload)["pids"]
        process.abandon()
        await gone(pids)

    run_all(work)


@pytest.mark.slow
def test_the_ranks_end_with_a_killed_worker():
    owner = subprocess.Popen([sys.executable, "-c", OWNER, place_of(Ranks)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    asyncio.run(gone(pids))


OWNER = """
import asyncio, json, sys
from neuro_cli.broker.proto.broker_pb2 import Task
from neuro_cli.broker.worker.process import TaskProcess

async def work():
    process = TaskProcess({"Ranks": sys.argv[1]}, 10**6, None, ranks=2)
    attempt = await process.run(Task(kind="Ranks", payload=b'{"what": "together"}'))
    print(*json.loads(attempt.payload)["pids"], flush=True)
    await asyncio.sleep(600)

asyncio.run(work())
"""


def test_a_worker_has_a_rank_at_least():
    config = cluster_config()
    config["worker"] |= {"ranks": 0}
    with pytest.raises(ConfigError, match=r"^worker.ranks=0: must be an integer from 1"):
        settings_of("worker", config)
