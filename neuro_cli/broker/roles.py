"""One process of a cluster: ``neuro search role=nameserver|broker|worker``, until a signal ends it.

    python -m neuro_cli.broker '{"role": "broker", "broker": {...}, ...}'

The second form takes the same config as JSON. It starts in a fraction of the time, and a cluster on one machine uses it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from neuro_cli.broker.packages import need_packages
from neuro_cli.broker.settings import BrokerSettings, NameserverSettings, Security, SecurityConfig, WorkerSettings, settings_of
from neuro_cli.core.checks import one_of
from neuro_cli.runner.config import section

SIGNALS = (signal.SIGTERM, signal.SIGINT)


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
    await _signalled()
    await nameserver.server.stop(0.5)
    return 0


async def _broker(settings: BrokerSettings, security: Security) -> int:
    from neuro_cli.broker.server.broker import Broker

    broker = Broker(settings, security)
    try:
        if await _unless_signalled(broker.start()):
            _say(f"broker {broker.broker_id} at {broker.address}")
            await _unless_signalled(broker.work())
    finally:
        await broker.close()
    return 0


async def _worker(settings: WorkerSettings, security: Security) -> int:
    from neuro_cli.broker.worker.worker import TaskWorker

    worker = TaskWorker(settings, security)
    _say(f"worker {worker.name}")
    work = asyncio.create_task(worker.work())
    signalled = asyncio.create_task(_signalled())
    await asyncio.wait((work, signalled), return_when=asyncio.FIRST_COMPLETED)
    if not work.done():
        worker.drain()
        again = asyncio.create_task(_signalled())
        await asyncio.wait((work, again), timeout=settings.drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        again.cancel()
    signalled.cancel()
    if not work.done():
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        return 1
    work.result()
    return 0


async def _unless_signalled(work: Awaitable[None]) -> bool:
    """Run ``work`` until it ends or a signal comes. Returns True at its end, and raises its error."""
    task = asyncio.ensure_future(work)
    signalled = asyncio.create_task(_signalled())
    await asyncio.wait((task, signalled), return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    if task.done():
        task.result()
        return True
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return False


async def _signalled() -> None:
    """Wait for a request to end."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, came.set)
    await came.wait()


def _say(text: str) -> None:
    print(f"neuro: {text}", flush=True)


ROLES: dict[str, Callable[[Any, Security], Any]] = {"nameserver": _nameserver, "broker": _broker, "worker": _worker}
