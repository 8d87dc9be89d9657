"""``worker.ranks``: a task as an MPI job, whatever becomes of its ranks. "Individual clusters become the workers"."""

import asyncio
from functools import partial

import pytest
from made_tasks import EveryByte, Ranks
from support.worlds import descendants, needs_mpi, wait_for_end
from test_task_process import run_all as run_by_one_process

import neuro_cli as neuro
from neuro_cli.broker.local_cluster import cluster_config
from neuro_cli.broker.proto.broker_pb2 import Task
from neuro_cli.broker.settings import settings_of
from neuro_cli.broker.worker.attempt import Attempt, Ending
from neuro_cli.broker.worker.kinds import place_of
from neuro_cli.broker.worker.process import TaskProcess
from neuro_cli.core.errors import ConfigError

pytestmark = needs_mpi


def given(payload: bytes, kind: str = "Ranks") -> Task:
    return Task(payload=payload, kind=kind, timeout_seconds=120.0)


run_all = partial(run_by_one_process, kinds={task.kind: place_of(task) for task in (Ranks, EveryByte)}, ranks=2)


async def attempt(process: TaskProcess, *what: object) -> Attempt:
    made = await process.run(given(Ranks(*what).to_bytes()))  # type: ignore[arg-type]
    assert made is not None
    return made


async def gone(pids: list[int]) -> None:
    await asyncio.to_thread(wait_for_end, pids)


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
@pytest.mark.parametrize(("rank", "what"), [(0, "crash"), (1, "fail")])
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


def test_a_worker_has_a_rank_at_least():
    config = cluster_config()
    config["worker"] |= {"ranks": 0}
    with pytest.raises(ConfigError, match=r"^worker.ranks=0: must be an integer from 1"):
        settings_of("worker", config)


def test_a_cluster_of_ones_own_has_workers_of_as_many_ranks():
    """``pool.ranks`` and ``BrokerClient.embedded(ranks=)``."""
    with neuro.BrokerClient.embedded([Ranks], workers=1, ranks=2) as client:
        client.submit(Ranks("together"))
        (done,) = client.results()
    assert not done.error
    assert done.value["size"] == 2
    assert len(set(done.value["pids"])) == 2
