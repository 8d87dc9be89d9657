"""Process of a cluster: ``neuro search role=nameserver|broker|worker``, until a signal ends it.

    python -m neuro_cli.broker '{"role": "broker", "broker": {...}, ...}'

The second form takes the same config as JSON. It starts in a fraction of the time, and a cluster on one machine uses it.
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neuro_cli.broker.packages import need_packages
from neuro_cli.broker.settings import BrokerSettings, NameserverSettings, Security, SecurityConfig, WorkerSettings, settings_of
from neuro_cli.core.checks import one_of
from neuro_cli.runner.config import section

if TYPE_CHECKING:
    from neuro_cli.broker.server.broker import Broker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
RETRY_SECONDS = 1.0  # seconds between two looks whether a full disk has room

log = logging.getLogger(__name__)


def serve(config: dict[str, Any]) -> int:
    """Run the process of ``config["role"]``. Returns the exit code. Raises UserError."""
    role = one_of("role", config.get("role"), tuple(ROLES))
    need_packages()
    try:
        settings, security = settings_of(role, config), section(SecurityConfig, config.get("security"), "security.").settle()
        return int(asyncio.run(ROLES[role](settings, security)))
    except ExceptionGroup as group:
        raise _first(group) from group


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _nameserver(settings: NameserverSettings, security: Security) -> int:
    from neuro_cli.broker.nameserver.nameserver import Nameserver

    nameserver = Nameserver(settings, security)
    await nameserver.server.start()
    _say(f"nameserver at {nameserver.server.address}")
    await _unless_signalled(asyncio.Event().wait())
    await nameserver.server.stop(0.5)
    return 0


async def _broker(settings: BrokerSettings, security: Security) -> int:
    from neuro_cli.broker.server.broker import Broker
    from neuro_cli.broker.server.database import StoreError

    broker = Broker(settings, security)
    settings = replace(settings, address=broker.address)
    while True:
        try:
            if await _unless_signalled(broker.start()):
                _say(f"broker {broker.broker_id} at {broker.address}")
                await _unless_signalled(broker.work())
            return 0
        except (StoreError, ExceptionGroup) as error:  # the latter: of one of the broker's tasks
            trouble = _first(error)
            if not isinstance(trouble, StoreError) or trouble.damage:
                raise
            log.warning("%s: the broker stops, and serves again when changes can be stored", trouble)
        finally:
            await broker.close()
        if (again := await _opened_again(settings, security)) is None:
            return 0
        broker = again


async def _opened_again(settings: BrokerSettings, security: Security) -> "Broker | None":
    """Wait until a broker's disk has room, and open the broker. Returns None after a signal."""
    from neuro_cli.broker.server.broker import Broker
    from neuro_cli.broker.server.database import StoreError

    while await _unless_signalled(asyncio.sleep(RETRY_SECONDS)):
        with contextlib.suppress(StoreError):
            return Broker(settings, security)
    return None


async def _worker(settings: WorkerSettings, security: Security) -> int:
    """Run a worker. A signal drains it, and a second one or ``drain_seconds`` later end it."""
    from neuro_cli.broker.worker.worker import TaskWorker

    worker = TaskWorker(settings, security)
    _say(f"worker {worker.name}")
    work = asyncio.create_task(worker.work())

    def signalled() -> None:
        if worker.draining:
            work.cancel()
        else:
            worker.drain()
            asyncio.get_running_loop().call_later(settings.drain_seconds, work.cancel)

    return 0 if await _ended(work, signalled) else 1


async def _unless_signalled(work: Awaitable[object]) -> bool:
    """Run ``work`` until it ends or a signal comes. Returns True at its end, and raises its error."""
    task = asyncio.ensure_future(work)
    return await _ended(task, task.cancel)


async def _ended(task: asyncio.Future[Any], signalled: Callable[[], object]) -> bool:
    """Wait for ``task``, and call ``signalled`` at each signal. Returns False where the task was cancelled."""
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    try:
        await task
    except asyncio.CancelledError:
        return False
    return True


def _say(text: str) -> None:
    print(f"neuro: {text}", flush=True)


ROLES: dict[str, Callable[[Any, Security], Any]] = {"nameserver": _nameserver, "broker": _broker, "worker": _worker}
