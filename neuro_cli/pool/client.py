"""Client of a task cluster for a user's program, the paper's *model*: it submits tasks and receives results as they are done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from neuro_cli.broker.packages import need_packages
from neuro_cli.broker.task import BaseTask
from neuro_cli.core.errors import UserError

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class TaskResult:
    """Result of a submitted ``task``: the ``value`` that its ``run`` returned, or an ``error``, one line or a traceback.

    ``worker``: name of the worker that did it; ``seconds``: time of the attempt that decided.
    """

    task: BaseTask
    value: Any
    error: str
    worker: str
    seconds: float


class BrokerClient:
    """Client of the brokers that the nameserver at ``nameserver`` knows; :meth:`embedded` starts a cluster of its own.

    ``certificates``: folder for mutual TLS, None: this user's own, for one machine; ``insecure``: plaintext, on this machine.
    ``run``: name of the work at the brokers. A program that returns under the same name, and submits the same tasks in the same
    order, gets the existing results; empty: a new name. ``patience``: seconds in which a lost cluster must be back;
    ``task_timeout``: seconds of one attempt at a task, None: no limit; ``message_bytes``: no message may be longer. Use it in
    ``with``, so that unfinished tasks are dropped at the end. ``submitted`` counts the tasks so far.
    """

    def __init__(
        self,
        nameserver: str = "127.0.0.1:7700",
        certificates: str | Path | None = None,
        insecure: bool = False,
        run: str = "",
        patience: float = 300.0,
        task_timeout: float | None = None,
        message_bytes: int = 4 * 2**20,
    ) -> None:
        need_packages()
        from neuro_cli.pool.broker import BrokerPool

        self._begin(BrokerPool(nameserver, run, certificates, message_bytes, patience, task_timeout, insecure))

    @classmethod
    def embedded(
        cls,
        tasks: Sequence[type[BaseTask]],
        workers: int | None = None,
        memory: float | None = None,
        task_timeout: float | None = None,
        ranks: int = 1,
    ) -> Self:
        """Start a cluster on this machine, which ends with the client: its ``workers`` (None: the usable cores) do ``tasks``.

        ``memory``: GB that a task may take; ``task_timeout``: its seconds. None: no limit. ``ranks``: size of the MPI job that
        runs each task on all its ranks at once.
        """
        need_packages()
        from neuro_cli.broker.worker.kinds import place_of
        from neuro_cli.pool.embedded import EmbeddedPool

        client = cls.__new__(cls)
        client._begin(EmbeddedPool(workers, memory, task_timeout, ranks, {task.kind: place_of(task) for task in tasks}))
        return client

    def _begin(self, pool: Any) -> None:
        self._pool = pool
        self._tasks: dict[str, BaseTask] = {}  # tasks without a result, by id
        self.submitted = 0

    def submit(self, *tasks: BaseTask) -> None:
        """Send tasks; wait while the broker's queue is full. Raises UserError: a task too large, no broker in sight."""
        from neuro_cli.pool.base import WorkUnit

        units = [WorkUnit(str(self.submitted + place), task.kind, task.to_bytes()) for place, task in enumerate(tasks)]
        self._pool.submit(units)
        self.submitted += len(units)
        self._tasks |= {unit.id: task for unit, task in zip(units, tasks, strict=True)}

    def results(self) -> Iterator[TaskResult]:
        """Yield results as they come, until every task has one; more may be submitted meanwhile.

        Raises UserError when the cluster is lost for longer than ``patience``.
        """
        while self._tasks:
            for message in self._pool.arrived(POLL_SECONDS):
                yield self._result(message)

    def _result(self, message: Any) -> TaskResult:
        from neuro_cli.broker.proto import broker_pb2
        from neuro_cli.pool.broker import error_of

        task, value, error = self._tasks.pop(message.id), None, ""
        if message.outcome == broker_pb2.DONE:
            try:
                value = task.result_from_bytes(message.payload)
            except UserError as wrong:
                error = str(wrong)
        else:
            error = error_of(message)
        return TaskResult(task, value, error, message.worker, message.seconds)

    def facts(self) -> dict[str, Any]:
        """Return the cluster's ``brokers`` and ``workers``, and all its tasks that are ``waiting`` and ``running``."""
        facts: dict[str, Any] = self._pool.facts()
        return facts

    def close(self) -> None:
        """Drop the tasks without a result; an embedded cluster ends."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
