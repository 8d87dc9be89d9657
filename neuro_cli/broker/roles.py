"""One process of a cluster: ``neuro search role=nameserver|broker|worker``, until a signal ends it.

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
    from neuro_cli.broker.worker.worker import TaskWorker

    worker = TaskWorker(settings, security)
    _say(f"worker {worker.name}")
    work = asyncio.create_task(worker.work())
    if not await _ends_before_a_signal(work):
        worker.drain()
        await _ends_before_a_signal(work, settings.drain_seconds)
    return 0 if await _ended(work) else 1


async def _unless_signalled(work: Awaitable[object]) -> bool:
    """Run ``work`` until it ends or a signal comes. Returns True at its end, and raises its error."""
    task = asyncio.ensure_future(work)
    await _ends_before_a_signal(task)
    return await _ended(task)


async def _ends_before_a_signal(task: asyncio.Future[Any], seconds: float | None = None) -> bool:
    """Wait for ``task``. Returns False where a signal comes first, or the time is over."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, came.set)
    signalled = asyncio.create_task(came.wait())
    await asyncio.wait((task, signalled), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    return task.done()


async def _ended(task: asyncio.Future[Any]) -> bool:
    """End a task that has not ended by itself. Returns True, or raises its error, where it had."""
    if task.done():
        task.result()
        return True
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return False


def _say(text: str) -> None:
    print(f"neuro: {text}", flush=True)


ROLES: dict[str, Callable[[Any, Security], Any]] = {"nameserver": _nameserver, "broker": _broker, "worker": _worker}
