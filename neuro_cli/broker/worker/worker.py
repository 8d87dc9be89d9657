"""Worker of a cluster, which takes tasks from one broker after the other and runs each in a separate process."""

import asyncio
import logging
import os
import random
import socket
import time
from collections import deque
from contextlib import suppress

import grpc

from neuro_cli.broker.nameserver.client import RETRY_SECONDS, brokers
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.server.store import Key
from neuro_cli.broker.server.waiting import key_of, task_key
from neuro_cli.broker.settings import Security, WorkerSettings
from neuro_cli.broker.wire import NAMESERVER, WORK, Stub, batches, open_channel, payload_limit, reason
from neuro_cli.broker.worker.attempt import Attempt
from neuro_cli.broker.worker.process import TaskProcess
from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

AHEAD_SECONDS = 0.05  # seconds of work that is fetched ahead
GATHER_SECONDS = 0.005  # seconds in which reports on short tasks gather, since a message costs as much as a task
BEAT_SECONDS = 1.0  # most seconds between two signs of life; the broker may want them more often
SHORTEST_BEAT = 0.01
LONG_SECONDS = 0.5  # seconds of a running task after which no other should wait behind it
MOST_AHEAD = 256  # most tasks that are fetched ahead
AVOID_SECONDS = 3.0  # seconds for which a broker that did not answer is avoided
GOODBYE_SECONDS = 10.0  # seconds in which a drained worker must deliver its last results


class TaskWorker:
    """Worker of the running event loop."""

    def __init__(self, settings: WorkerSettings, security: Security) -> None:
        self._settings, self._security = settings, security
        self.name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
        limit = payload_limit(security)
        self._processes = [
            TaskProcess(settings.kinds, limit, settings.memory, settings.threads, settings.ranks)
            for _ in range(settings.children)
        ]
        self._pending: deque[messages.Task] = deque()
        self._arrived = asyncio.Condition()
        self._session_keys: set[Key] = set()  # tasks of the present broker
        self._results: list[messages.Result] = []
        self._started: list[messages.TaskKey] = []
        self._returned: list[messages.TaskKey] = []
        self._wake = asyncio.Event()
        self._seconds = 1.0  # recent duration of a task
        self._avoid: dict[str, float] = {}
        self._beat = BEAT_SECONDS
        self.draining = False

    async def work(self) -> None:
        """Work until :meth:`drain` was called and all is done. Raises UserError without a nameserver."""
        channel = open_channel(self._settings.nameserver, self._security)
        stub = Stub(NAMESERVER, channel)
        await brokers(stub, self._settings.nameserver, self._security)
        try:
            async with asyncio.TaskGroup() as group:  # an error in one of them ends the worker
                background = [group.create_task(self._run_tasks(process)) for process in self._processes]
                while not (self.draining and self._done()):
                    await self._visit(await self._choose(stub))
                for task in background:
                    task.cancel()
        finally:
            await asyncio.gather(*(process.close() for process in self._processes))
            await channel.close()

    def drain(self) -> None:
        """Take no more tasks, give back those that have not begun, finish the others."""
        self.draining = True
        self._give_back_pending()
        self._wake.set()

    async def _choose(self, stub: Stub) -> nameserver_pb2.BrokerInfo:
        """Choose one of the brokers with fewest workers, once any exists."""
        warned = False
        while True:
            try:
                known = await brokers(stub, self._settings.nameserver, self._security)
            except UserError as error:  # the nameserver answered before, and may return
                known = []
                log.warning("%s", error)
            now = time.monotonic()
            fresh = [info for info in known if now - self._avoid.get(info.address, -AVOID_SECONDS) >= AVOID_SECONDS]
            if fresh:
                least = min(info.workers for info in fresh)
                return random.choice([info for info in fresh if info.workers == least])
            if not warned and not known:
                log.warning("the nameserver at %s knows no broker: waiting for one", self._settings.nameserver)
                warned = True
            if self.draining and not self._busy():
                return nameserver_pb2.BrokerInfo()
            await asyncio.sleep(RETRY_SECONDS)

    async def _visit(self, broker: nameserver_pb2.BrokerInfo) -> None:
        """Work for one broker until it is gone, or this worker is drained."""
        if not broker.address:
            log.warning("drained without a broker: %d results are lost, their tasks will be done again", len(self._results))
            self._results.clear()
            return
        channel = open_channel(broker.address, self._security)
        call = Stub(WORK, channel).Pull()
        hello = messages.Hello(name=self.name, kinds=sorted(self._settings.kinds))
        reader = asyncio.create_task(self._listen(call))
        try:
            await call.write(messages.WorkerMessage(hello=hello, capacity=self._capacity()))
            await self._talk(call, reader)
        except (grpc.RpcError, asyncio.InvalidStateError, TimeoutError) as error:
            log.warning("broker %d at %s is gone: %s", broker.broker_id, broker.address, reason(error))
            self._avoid[broker.address] = time.monotonic()
        finally:
            self._leave()
            call.cancel()
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            await channel.close()

    async def _talk(self, call: grpc.aio.StreamStreamCall, reader: asyncio.Task[None]) -> None:
        """Report to the broker. Raises grpc.RpcError when it is gone."""
        while not reader.done():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._beat)
            await asyncio.sleep(GATHER_SECONDS if self._seconds < AHEAD_SECONDS else 0.0)
            self._wake.clear()
            self._return_ahead()
            await self._tell(call)
            if self.draining and self._done():
                await call.done_writing()  # the broker ends the stream once it has read everything
                await asyncio.wait_for(asyncio.shield(reader), GOODBYE_SECONDS)
                return
        reader.result()
        raise asyncio.InvalidStateError("it ended the stream")

    def _return_ahead(self) -> None:
        """Give back tasks fetched ahead when running ones take longer than those before: other workers may be idle."""
        lengths = [process.elapsed for process in self._processes]
        if not self._pending or min(lengths) < LONG_SECONDS:
            return
        self._seconds = min(lengths)
        self._give_back_pending()

    def _give_back_pending(self) -> None:
        keys = [key_of(task) for task in self._pending]
        self._returned += map(task_key, keys)
        self._session_keys.difference_update(keys)
        self._pending.clear()

    async def _tell(self, call: grpc.aio.StreamStreamCall) -> None:
        """Write the reports; results that cannot be written stay for the next broker, which may want them."""
        news = deque(self._news())
        try:
            while news:
                await call.write(news[0])
                news.popleft()
        finally:
            self._results[:0] = [result for message in news for result in message.results]

    async def _listen(self, call: grpc.aio.StreamStreamCall) -> None:
        async for message in call:
            if message.HasField("welcome"):
                beat = message.welcome.beat_seconds
                self._beat = min(BEAT_SECONDS, max(beat, SHORTEST_BEAT)) if beat == beat else BEAT_SECONDS
                self._wake.set()
            if message.tasks:
                await self._take(message.tasks)
            for key in map(key_of, message.dropped):
                self._forget(key)

    async def _take(self, tasks: list[messages.Task]) -> None:
        if self.draining:
            self._returned += [task_key(key_of(task)) for task in tasks]
            self._wake.set()
            return
        self._session_keys.update(map(key_of, tasks))
        running = {key_of(process.task): process.task for process in self._processes if process.task is not None}
        for task in tasks:
            if (same := running.get(key_of(task))) is None:
                self._pending.append(task)
            else:  # a broker that returns may send a task that runs here already: its one result will do
                self._started.append(task_key(key_of(task)))
                same.delivery = task.delivery
        async with self._arrived:
            self._arrived.notify(len(tasks))

    def _forget(self, key: Key) -> None:
        self._session_keys.discard(key)
        self._pending = deque(task for task in self._pending if key_of(task) != key)
        for process in self._processes:
            if process.task is not None and key_of(process.task) == key:
                process.abandon()

    def _leave(self) -> None:
        """Drop the tasks of the session's broker, except running ones, which it may still want if it returns."""
        self._pending.clear()
        self._session_keys.clear()
        self._started.clear()
        self._returned.clear()

    async def _run_tasks(self, process: TaskProcess) -> None:
        """Run tasks in one process without end."""
        while True:
            async with self._arrived:
                await self._arrived.wait_for(lambda: self._pending)
                task = self._pending.popleft()
            if key_of(task) in self._session_keys:
                self._started.append(task_key(key_of(task)))
                self._wake.set()
            began = time.perf_counter()
            attempt = await process.run(task)
            # a task that the machine delayed once says nothing about the next ones
            self._seconds += 0.2 * (min(time.perf_counter() - began, 4.0 * self._seconds) - self._seconds)
            self._session_keys.discard(key_of(task))
            if attempt is not None:
                self._results.append(self._result(task, attempt))
            self._wake.set()

    def _result(self, task: messages.Task, attempt: Attempt) -> messages.Result:
        return messages.Result(
            run=task.run, id=task.id, outcome=attempt.ending.value, payload=attempt.payload,
            error=attempt.error, worker=self.name, seconds=attempt.seconds, delivery=task.delivery,
        )  # fmt: skip

    def _news(self) -> list[messages.WorkerMessage]:
        """Pack the reports into as few messages as possible."""
        groups = batches(self._results) or [[]]
        news = [messages.WorkerMessage(capacity=self._capacity(), results=group) for group in groups]
        news[0].started.extend(self._started)
        news[0].returned.extend(self._returned)
        self._started, self._returned, self._results = [], [], []
        return news

    def _capacity(self) -> int:
        """Return the number of tasks to ask the broker for: one for each of its processes, and a little work ahead."""
        if self.draining:
            return 0
        others = sum(process.task is not None and key_of(process.task) not in self._session_keys for process in self._processes)
        ahead = min(MOST_AHEAD, int(AHEAD_SECONDS * len(self._processes) / max(self._seconds, 1e-6)))
        return max(0, len(self._processes) - others) + ahead

    def _busy(self) -> bool:
        return any(process.task is not None for process in self._processes) or bool(self._pending)

    def _done(self) -> bool:
        return not (self._busy() or self._results or self._returned)
