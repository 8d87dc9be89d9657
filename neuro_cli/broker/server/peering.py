"""Help of an idle broker for another one, which treats it as a worker with the capacity of its workers."""

import asyncio
import contextlib
import logging
import random
import time

import grpc

from neuro_cli.broker.nameserver.client import Registration
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto.broker_pb2_grpc import WorkStub
from neuro_cli.broker.server.consumer import Key, Lender, key_of, task_key
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import BATCH_BYTES, open_channel, reason

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5  # seconds between two looks for a broker that needs help
TELL_SECONDS = 0.1  # longest time in seconds until a change of the capacity is reported
STAY_SECONDS = 2.0  # seconds with a broker that has no more tasks


class Helper:
    """Helper of brokers with waiting tasks, while the workers here have none."""

    def __init__(self, queues: Queues, registration: Registration, security: Security) -> None:
        self._queues, self._registration, self._security = queues, registration, security

    async def run(self) -> None:
        """Work without end."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.5, 1.0))
            if not self._queues.lendable():
                continue
            peer = await self._registration.peer()
            if peer is None or not peer.waiting:
                continue
            session = _Session(self._queues, peer.address)
            channel = open_channel(peer.address, self._security)
            try:
                log.info("helping broker %d at %s", peer.broker_id, peer.address)
                await session.help(WorkStub(channel), f"broker {self._registration.broker_id}")
            except (grpc.RpcError, asyncio.InvalidStateError) as error:  # the latter: a write after the end
                text = reason(error) if isinstance(error, grpc.RpcError) else "its stream ended"
                log.info("broker %d at %s is helped no more: %s", peer.broker_id, peer.address, text)
            finally:
                session.forget()
                await channel.close()


class _Session:
    """Session with one broker."""

    def __init__(self, queues: Queues, address: str) -> None:
        self._queues = queues
        self._lender = Lender(address, self._from_worker)
        self._holding: set[Key] = set()
        self._outbox: list[messages.WorkerMessage] = []
        self._wake = asyncio.Event()
        self._useful = time.monotonic()

    def forget(self) -> None:
        self._queues.forget_lender(self._lender)

    async def help(self, stub: WorkStub, name: str) -> None:
        """Help until the other broker has had no tasks for a while. Raises grpc.RpcError."""
        call = stub.Pull()
        hello = messages.Hello(name=name, kinds=sorted(self._queues.kinds()), peer=True)
        await call.write(messages.WorkerMessage(hello=hello, capacity=self._capacity()))
        reader = asyncio.create_task(self._listen(call))
        try:
            await self._talk(call, reader)
        finally:
            call.cancel()
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await reader

    async def _talk(self, call: grpc.aio.StreamStreamCall, reader: asyncio.Task[None]) -> None:
        reported, reported_at = -1, 0.0
        while not reader.done():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TELL_SECONDS)
            self._wake.clear()
            self._return_unwanted()
            capacity, now = self._capacity(), time.monotonic()
            outbox, self._outbox = self._outbox, []
            if outbox or capacity != reported or now - reported_at > 1.0:
                for message in _merged(outbox) or [messages.WorkerMessage()]:
                    message.capacity = capacity
                    await call.write(message)
                reported, reported_at = capacity, now
            if not self._holding and not outbox and now - self._useful > STAY_SECONDS:
                return
        reader.result()

    async def _listen(self, call: grpc.aio.StreamStreamCall) -> None:
        async for message in call:
            if message.tasks:
                self._useful = time.monotonic()
                self._holding.update(map(key_of, message.tasks))
                self._queues.help(message.tasks, self._lender)
            if message.dropped:
                keys = {key_of(named) for named in message.dropped}
                self._holding -= keys
                self._queues.forget_lender(self._lender, keys)

    def _return_unwanted(self) -> None:
        """Give back tasks for which no worker here has room, after a drain or behind tasks of this broker."""
        keys = self._queues.give_back(self._lender)
        self._holding.difference_update(keys)
        if keys:
            self._outbox.append(messages.WorkerMessage(returned=map(task_key, keys)))

    def _from_worker(self, message: messages.WorkerMessage) -> None:
        self._holding.difference_update(key_of(result) for result in message.results)
        self._outbox.append(message)
        self._wake.set()

    def _capacity(self) -> int:
        return len(self._holding) + self._queues.lendable()


def _merged(outbox: list[messages.WorkerMessage]) -> list[messages.WorkerMessage]:
    """Merge messages into as few as possible."""
    groups: list[messages.WorkerMessage] = []
    size = 0
    for message in outbox:
        length = message.ByteSize()
        if not groups or size + length > BATCH_BYTES:
            groups.append(messages.WorkerMessage())
            size = 0
        groups[-1].MergeFrom(message)
        size += length
    return groups
