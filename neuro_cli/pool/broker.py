"""Pool on a cluster: tasks go to a broker that the nameserver knows, results come back on a stream.

Tasks stay in this process until their results arrive. When their broker is lost for longer than a restart takes, they go to
another one. A result that arrives a second time is dropped.
"""

import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.broker.addresses import check_address
from neuro_cli.broker.client.submitter import Submitter
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.settings import Security, SecurityConfig
from neuro_cli.broker.tokens import RUN_TOKEN, run_token
from neuro_cli.broker.wire import payload_limit
from neuro_cli.core.checks import number
from neuro_cli.core.errors import UserError
from neuro_cli.pool.base import Pool, WorkResult, WorkUnit, payload_of
from neuro_cli.pool.loop import LoopThread
from neuro_cli.runner.config import section

log = logging.getLogger(__name__)


class BrokerPool(Pool):
    """Workers of a cluster, by way of the brokers that the nameserver at ``nameserver`` knows.

    ``run`` names the submitted tasks: a process that returns under the same name takes up those still at its broker; empty: a new
    name. ``certificates``: folder for mutual TLS, None: this user's own; ``insecure``: plaintext without certificates.
    ``patience``: seconds in which a lost cluster must be back. ``task_timeout``: seconds of one attempt, None: no limit.
    """

    own_workers = False

    def __init__(
        self,
        nameserver: str = "127.0.0.1:7700",
        run: str = "",
        certificates: str | Path | None = None,
        message_bytes: int = 4 * 2**20,
        patience: float = 300.0,
        task_timeout: float | None = None,
        insecure: bool = False,
    ) -> None:
        self._nameserver = check_address("pool.nameserver", nameserver, zero=True)
        security = {"certificates": certificates, "message_bytes": message_bytes, "insecure": insecure}
        self._config = section(SecurityConfig, security, "pool.")
        self._security = self._config.check("pool.")
        self._patience = number("pool.patience", patience, above=0.0)
        self._timeout = 0.0 if task_timeout is None else number("pool.task_timeout", task_timeout, above=0.0)
        self._limit = payload_limit(Security(message_bytes=message_bytes))
        self.run = run or secrets.token_hex(8)
        self._named = bool(run)
        self._token = b""
        self._known: set[str] = set()
        self._loop = LoopThread()
        self._submitter: Submitter | None = None
        self._closed = False

    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        """Queue tasks; waits while the broker's queue is full. Raises UserError: a task too large, no broker in sight."""
        new = [task for task in tasks if task.id not in self._known]
        packed = [self._packed(task) for task in new]
        self._known.update(task.id for task in new)
        self._ask(lambda brokers: brokers.submit(packed, self._patience))

    def results(self, timeout: float) -> list[WorkResult]:
        """Return the results since the last call. Raises UserError when the cluster is lost for longer than ``patience``."""
        return [_unpacked(result) for result in self.arrived(timeout)]

    def arrived(self, timeout: float) -> list[messages.Result]:
        """Return the broker's :meth:`results` as they came, with payloads in bytes."""
        results: list[messages.Result] = self._ask(lambda brokers: brokers.results(timeout, self._patience))
        return results

    def facts(self) -> dict[str, Any]:
        """Return ``brokers``, ``workers``, ``waiting`` and ``running`` of the cluster, and the ``broker`` that this pool uses."""
        facts: dict[str, Any] = self._ask(lambda brokers: brokers.facts())
        return facts

    def close(self) -> None:
        """Drop the pool's tasks that are still at the broker."""
        self._closed = True
        try:
            if self._submitter is not None and self._loop.running:
                self._loop.call(self._submitter.close())
        finally:
            self._loop.close()

    def _ask(self, work: Callable[[Submitter], Coroutine[Any, Any, Any]]) -> Any:
        """Ask the cluster, and connect first where needed. Raises UserError."""
        if self._closed:
            raise UserError("this pool was closed")
        if self._submitter is None:
            self._security = self._security or self._config.settle()
            self._token = run_token(self.run) if self._named else secrets.token_bytes(RUN_TOKEN)
            self._submitter = self._loop.call(_connected(self._nameserver, self.run, self._token, self._security))
        return self._loop.call(work(self._submitter))

    def _packed(self, task: WorkUnit) -> messages.Task:
        payload = task.data
        if len(payload) > self._limit:
            raise UserError(f"task {task.id}: its payload has {len(payload)} bytes, pool.message_bytes allows {self._limit}")
        return messages.Task(run=self.run, id=task.id, kind=task.kind, payload=payload, timeout_seconds=self._timeout)


async def _connected(nameserver: str, run: str, token: bytes, security: Security) -> Submitter:
    submitter = Submitter(nameserver, run, token, security)
    try:
        await submitter.connect()
    except BaseException:
        await submitter.close()
        raise
    return submitter


def _unpacked(result: messages.Result) -> WorkResult:
    payload, error = payload_of(result.payload) if result.outcome == messages.DONE else ({}, error_of(result))
    return WorkResult(result.id, payload, error, result.worker, result.seconds)


def error_of(result: messages.Result) -> str:
    """Return the error of a result whose outcome is not DONE."""
    return result.error or str(messages.Outcome.Name(result.outcome))
