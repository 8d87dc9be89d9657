"""Help of an idle broker for another one. It acts as a worker towards that broker, and as a model towards the queues here.

The other broker's tasks form a run here, which ends with the help.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import time
from itertools import count

import grpc

from neuro_cli.broker.nameserver.client import Registration
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.delivery import Deliveries, Delivery
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import LENT, Store
from neuro_cli.broker.server.waiting import key_of, task_key
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import WORK, Stub, open_channel, reason

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5  # seconds between two looks for a broker that needs help
TELL_SECONDS = 0.1  # longest time in seconds until a change of the capacity is reported
STAY_SECONDS = 2.0  # seconds with a broker that has no more tasks


class Helper:
    """Helper of brokers with waiting tasks, while the workers here have none."""

    def __init__(
        self, queues: Queues, store: Store, deliveries: Deliveries, registration: Registration, security: Security
    ) -> None:
        self._queues, self._store, self._deliveries = queues, store, deliveries
        self._registration, self._security = registration, security

    async def run(self) -> None:
        """Help other brokers without end."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.5, 1.0))
            if not self._queues.lendable():
                continue
            peer = await self._registration.peer()
            if peer is None or not peer.waiting:
                continue
            session = _Session(self._queues, self._store)
            self._deliveries[session.run] = session.delivery
            channel = open_channel(peer.address, self._security)
            try:
                log.info("helping broker %d at %s", peer.broker_id, peer.address)
                await session.help(Stub(WORK, channel), f"broker {self._registration.broker_id}")
            except (grpc.RpcError, asyncio.InvalidStateError) as error:  # the latter: a write after the end
                log.info("broker %d at %s is helped no more: %s", peer.broker_id, peer.address, reason(error))
            finally:
                del self._deliveries[session.run]
                self._queues.drop(session.run)
                await channel.close()


class _Session:
    """Session with one broker."""

    def __init__(self, queues: Queues, store: Store) -> None:
        self._queues = queues
        self.run = f"{LENT}{secrets.token_hex(8)}"
        self.delivery = Delivery(store, self.run)
        self._names = map(str, count())
        self._holding: dict[str, messages.Task] = {}  # tasks of the other broker, by their ids here
        self._outbox: list[messages.WorkerMessage] = []
        self._wake = asyncio.Event()
        self._useful = time.monotonic()

    async def help(self, stub: Stub, name: str) -> None:
        """Help until the other broker has had no tasks for a while. Raises grpc.RpcError."""
        call = stub.Pull()
        hello = messages.Hello(name=name, kinds=sorted(self._queues.kinds()), peer=True)
        await call.write(messages.WorkerMessage(hello=hello, capacity=self._capacity()))
        background = [asyncio.create_task(self._listen(call)), asyncio.create_task(self.delivery.push(self._report))]
        try:
            await self._talk(call, background)
        finally:
            call.cancel()
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _talk(self, call: grpc.aio.StreamStreamCall, background: list[asyncio.Task[None]]) -> None:
        reported, reported_at = -1, 0.0
        while not any(task.done() for task in background):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), TELL_SECONDS)
            self._wake.clear()
            if self._queues.waiting.helping:  # no worker here has room, after a drain or behind tasks of this broker
                self._give_back(self._queues.without_consumer(self.run))
            capacity, now = self._capacity(), time.monotonic()
            outbox, self._outbox = self._outbox, []
            if outbox or capacity != reported or now - reported_at > 1.0:
                for message in outbox or [messages.WorkerMessage()]:
                    message.capacity = capacity
                    await call.write(message)
                reported, reported_at = capacity, now
            if not self._holding and not outbox and now - self._useful > STAY_SECONDS:
                return
        for task in background:
            if task.done():
                task.result()

    async def _listen(self, call: grpc.aio.StreamStreamCall) -> None:
        async for message in call:
            if message.tasks:
                self._useful = time.monotonic()
                self._take(message.tasks)
            if message.dropped:
                dropped = set(map(key_of, message.dropped))
                self._drop([name for name, task in self._holding.items() if key_of(task) in dropped])

    def _take(self, tasks: list[messages.Task]) -> None:
        """Queue tasks here, in the run of this session."""
        ours = []
        for task, name in zip(tasks, self._names, strict=False):
            timeout = task.timeout_seconds
            ours.append(messages.Task(run=self.run, id=name, kind=task.kind, payload=task.payload, timeout_seconds=timeout))
            self._holding[name] = messages.Task(run=task.run, id=task.id, delivery=task.delivery)
        accepted = self._queues.submit(ours)
        self._give_back([task.id for task in ours[accepted:]])

    async def _report(self, reply: messages.ResultsReply) -> None:
        """Report results under the names that their tasks have at the other broker."""
        names = [result.id for result in reply.results if result.id in self._holding]
        results = [result for result in reply.results if result.id in self._holding]
        for result in results:
            theirs = self._holding[result.id]
            result.run, result.id, result.delivery = theirs.run, theirs.id, theirs.delivery
        self._outbox.append(messages.WorkerMessage(results=results))
        self._drop(names)
        self._wake.set()

    def _give_back(self, names: list[str]) -> None:
        if names:
            self._outbox.append(messages.WorkerMessage(returned=[task_key(key_of(self._holding[name])) for name in names]))
            self._drop(names)

    def _drop(self, names: list[str]) -> None:
        """Forget tasks and their results here."""
        self._queues.drop(self.run, names)
        for name in names:
            del self._holding[name]

    def _capacity(self) -> int:
        return len(self._holding) + self._queues.lendable()
