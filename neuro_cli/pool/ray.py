"""Pool on Ray: each candidate is a task of a Ray cluster, or of a Ray that this process starts on this machine.

Ray pickles what it moves; this pool gives it bytes of JSON alone, and the name of a function that its workers import.
"""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from neuro_cli.broker.worker.kinds import process_task
from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError, UserError, one_line
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.messages.install import install
from neuro_cli.pool.base import Pool, WorkResult, WorkUnit, payload_of

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
ONE_MACHINE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: no other machine joins, on any system; read at Ray's import
TOKEN = "RAY_AUTH_MODE"
REACH = 10.0  # seconds


class RayPool(Pool):
    """Tasks of Ray. ``address``: of a running Ray (``auto``, HOST:PORT, ray://HOST:PORT); None: this process starts one.

    ``workers``: tasks at a time of a Ray that this process starts, None: the usable cores. ``retries``: how often Ray starts a
    task again whose worker died. ``cpus``, ``gpus``: what Ray reserves for a task.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, retries: int = 3, cpus: float = 1.0, gpus: float = 0.0
    ) -> None:
        self.own_workers = address is None
        self._address = address
        self._workers = usable_cores() if workers is None else integer("pool.workers", workers, 1, 1024)
        self._retries = integer("pool.retries", retries, 0, 1000)
        self._needs = {"num_cpus": number("pool.cpus", cpus, above=0.0), "num_gpus": number("pool.gpus", gpus, low=0.0)}
        self._known: set[str] = set()
        self._running: dict[Any, tuple[str, float]] = {}  # Ray's handles: the task's id, and when it was submitted
        self._ray: Any = None
        self._attempt: Any = None
        self._closed = False

    def submit(self, tasks: Sequence[WorkUnit]) -> None:
        """Queue tasks; the first call starts or joins Ray. Raises UserError without it."""
        self._connect()
        for task in tasks:
            if task.id not in self._known:
                self._known.add(task.id)
                self._running[self._attempt.remote(task.kind, task.data)] = task.id, time.monotonic()

    def results(self, timeout: float) -> list[WorkResult]:
        if not self._running:
            return []
        handles = list(self._running)
        ready, _ = self._ray.wait(handles, num_returns=1, timeout=timeout)
        if ready:  # take all others that are done too
            ready, _ = self._ray.wait(handles, num_returns=len(handles), timeout=0)
        return [self._result(handle) for handle in ready]

    def facts(self) -> dict[str, Any]:
        """Return ``workers``, tasks that Ray can do at a time, and ``running`` tasks, those that wait included."""
        if self._ray is None:
            return {"workers": 0, "running": 0}
        total, needs = self._ray.cluster_resources(), {"CPU": self._needs["num_cpus"], "GPU": self._needs["num_gpus"]}
        places = [total.get(name, 0.0) / need for name, need in needs.items() if need]
        return {"workers": int(min(places)), "running": len(self._running)}

    def close(self) -> None:
        """Drop the tasks that are not done, and leave Ray; one of this process's own ends."""
        self._closed = True
        if self._ray is not None:
            for handle in self._running:
                self._ray.cancel(handle, force=True)
            self._running.clear()
            self._ray.shutdown()

    def _result(self, handle: Any) -> WorkResult:
        name, begun = self._running.pop(handle)
        try:
            answer = json.loads(self._ray.get(handle))
        except Exception as error:  # Ray has one kind for each way to lose a task
            text = f"Ray lost the task: {type(error).__name__}: {one_line(str(error))[:300]}"
            return WorkResult(name, {}, text, "", time.monotonic() - begun)
        payload, wrong = payload_of(answer["result"].encode()) if not answer["error"] else ({}, answer["error"])
        return WorkResult(name, payload, wrong, answer["worker"], answer["seconds"])

    def _reach(self) -> None:
        """Raise UserError where nobody listens at HOST:PORT: Ray tries for minutes."""
        host, _, port = (self._address or "").removeprefix("ray://").rpartition(":")
        if not port.isdigit():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()
        except (OSError, OverflowError) as error:
            raise ConfigError("pool.address", self._address, f"must be the address of a running Ray ({error})") from error

    def _refusal(self, error: Exception) -> str:
        text = f"pool.address={self._address}: {type(error).__name__}: {one_line(str(error))[:300]}"
        # `ray start` asks for a token where the user has one; a client by HOST:PORT sends none by itself (Ray 2.60)
        return text if self.own_workers or TOKEN in os.environ else f"{text}; if `ray start` named a token: export {TOKEN}=token"

    def _connect(self) -> None:
        if self._closed:
            raise UserError("this pool was closed")
        if self._ray is not None:
            return
        self._reach()
        # read at Ray's import: it reports its use to its makers otherwise
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self.own_workers:  # else Ray takes 127.0.0.1 for the machine's name, and its processes listen on all interfaces
            os.environ[ONE_MACHINE] = "0"
        try:
            ray: Any = import_module("ray")
        except ImportError as error:
            raise UserError(f"pool=ray: Ray cannot be imported ({error}): {install('ray')}") from error
        own = {"num_cpus": self._workers, "include_dashboard": False, "_node_ip_address": LOOPBACK} if self.own_workers else {}
        with _handlers_put_back():
            try:
                ray.init(address=self._address or "local", log_to_driver=False, logging_level="ERROR", **own)
            except Exception as error:  # no Ray at the address, or none can be started here
                raise UserError(self._refusal(error)) from error
        if self.own_workers and ray.util.get_node_ip_address() != LOOPBACK:
            log.warning("Ray was imported before this pool: its processes listen on all interfaces of this machine")
        self._ray = ray
        self._attempt = ray.remote(max_retries=self._retries, **self._needs)(attempt)


def attempt(kind: str, payload: bytes) -> bytes:
    """Do one task on a worker of Ray. Returns JSON: ``result`` as text or ``error``, ``worker``, ``seconds``."""
    begun, result, error = time.perf_counter(), "", ""
    try:
        result = process_task(kind, payload).decode()
    except UserError as wrong:
        error = str(wrong)
    except Exception:
        import traceback

        error = traceback.format_exc()
    seconds = time.perf_counter() - begun
    return json.dumps({"result": result, "error": error, "worker": f"ray-{os.getpid()}", "seconds": seconds}).encode()


@contextmanager
def _handlers_put_back() -> Iterator[None]:
    """Keep this process's signal handlers: Ray sets one that ends the process on SIGTERM without a checkpoint."""
    before = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
