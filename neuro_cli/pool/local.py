"""Tasks in child processes of this one: no network, and nothing outlives the process that owns them.

The processes are those of a cluster's worker (``broker.worker.process``), and so are the bounds on what a task may take and the
words for how it failed. A process does one task at a time and lives as long as the pool. One that dies takes its task with it:
that is tried once more, in a new process, and then has an error for a result.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from neuro_cli.broker.worker.attempt import SAME_AGAIN, Attempt, Ending
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.broker.worker.process import MemoryLimit, TaskProcess
from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import headline
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.pool.base import Pool, WorkResult, WorkUnit, payload_of
from neuro_cli.pool.loop import LoopThread

log = logging.getLogger(__name__)

TRIES = 2
PAYLOAD_BYTES = 2**26  # of a result: a candidate's is a few hundred


@dataclass(frozen=True)
class LocalTask:
    """Unit of work as a `TaskProcess` takes it."""

    id: str
    kind: str
    payload: bytes
    timeout_seconds: float = 0.0


@dataclass
class LocalWorker:
    """Process of the pool. ``name`` is that of the present process, empty before the first; another process has another name."""

    process: TaskProcess[LocalTask]
    name: str = ""


class LocalPool(Pool):
    """``workers``: child processes (None: the usable cores). ``memory``: GB that each may take (None: no limit)."""

    def __init__(self, workers: int | None, memory: float | None) -> None:
        self.workers = usable_cores() if workers is None else integer("pool.workers", workers, 1, 1024)
        self.memory = None if memory is None else number("pool.memory", memory, above=0.0)
        limit = None if self.memory is None else MemoryLimit(int(self.memory * 1e9), f"pool.memory={self.memory:g} GB")
        self._idle = [LocalWorker(TaskProcess[LocalTask](KINDS, PAYLOAD_BYTES, limit)) for _ in range(self.workers)]
        self._all = tuple(self._idle)
        self._waiting: deque[LocalTask] = deque()
        self._submitted: set[str] = set()
        self._tries: dict[str, int] = {}
        self._ready: list[WorkResult] = []
        self._arrived = asyncio.Event()
        self._started = 0
        self._working: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._loop = LoopThread()

    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        new = [task for task in tasks if task.id not in self._submitted]
        self._submitted.update(task.id for task in new)
        self._loop.call(self._queue([LocalTask(task.id, task.kind, task.data) for task in new]))

    def results(self, timeout: float) -> list[WorkResult]:
        return self._loop.call(self._take(timeout))

    def facts(self) -> dict[str, Any]:
        busy = {worker.name: task.id for worker in self._all if (task := worker.process.task) is not None}
        return {"workers": self.workers, "waiting": len(self._waiting), "running": len(busy), "tasks": busy}

    def close(self) -> None:
        if self._loop.running:
            try:
                self._loop.call(self._end())
            finally:
                self._loop.close()

    async def _queue(self, tasks: list[LocalTask]) -> None:
        self._waiting.extend(tasks)
        self._dispatch()

    async def _take(self, timeout: float) -> list[WorkResult]:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), max(0.0, timeout))
        self._arrived.clear()
        if self._failure is not None:
            raise self._failure
        ready, self._ready = self._ready, []
        return ready

    async def _end(self) -> None:
        self._waiting.clear()
        for work in self._working:
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        await asyncio.gather(*(worker.process.close() for worker in self._all))

    def _dispatch(self) -> None:
        """Hand waiting tasks to idle workers, those that have a process before those that would start one."""
        while self._waiting and self._idle:
            worker = next((worker for worker in self._idle if worker.name), self._idle[0])
            self._idle.remove(worker)
            work = asyncio.create_task(self._run(worker, self._waiting.popleft()))
            self._working.add(work)
            work.add_done_callback(self._note)

    def _note(self, work: asyncio.Task[None]) -> None:
        """Keep a failure of the pool's own for the caller: a task without a result would let it wait for ever."""
        self._working.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            self._failure = error
            self._arrived.set()

    async def _run(self, worker: LocalWorker, task: LocalTask) -> None:
        """Run one task, and put its result with the ready ones or the task back in the queue."""
        if not worker.name:
            self._started += 1
            worker.name = f"local-{self._started}"
        tries = self._tries[task.id] = self._tries.get(task.id, 0) + 1
        attempt = await worker.process.run(task)
        assert attempt is not None  # none is abandoned
        if attempt.ending == Ending.DONE or attempt.ending in SAME_AGAIN or tries >= TRIES:
            self._ready.append(_result(task, attempt, worker.name))
            self._arrived.set()
        else:
            log.warning("task %s is tried again: %s", task.id, headline(attempt.error))
            self._waiting.appendleft(task)
        if worker.process.pid is None:  # the next task has a process of another name
            worker.name = ""
        self._idle.append(worker)
        self._dispatch()


def _result(task: LocalTask, attempt: Attempt, worker: str) -> WorkResult:
    payload, error = payload_of(attempt.payload) if attempt.ending == Ending.DONE else ({}, attempt.error)
    return WorkResult(task.id, payload, error, worker, attempt.seconds)
