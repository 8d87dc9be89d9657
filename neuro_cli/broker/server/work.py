"""Service Work: the stream of a worker, or of a broker that helps, to a broker."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import grpc

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import StoreError
from neuro_cli.broker.server.waiting import Consumer

LONGEST_NAME = 256
MOST_KINDS = 1000
MOST_CAPACITY = 100_000
BEATS = 5  # least messages of a worker in the timeout after which it counts as lost


class WorkService:
    """Service that hands out tasks."""

    def __init__(self, queues: Queues, worker_timeout: float, message_bytes: int) -> None:
        self._queues, self._timeout, self._message_bytes = queues, worker_timeout, message_bytes
        self.broker_id = 0

    async def Pull(self, requests, context):  # noqa: N802
        first = await anext(aiter(requests), messages.WorkerMessage())
        if _wrong_hello(first):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must be a hello with a name and kinds")
        outbox: asyncio.Queue[messages.BrokerMessage | str] = asyncio.Queue()
        hello = first.hello
        kinds = frozenset(hello.kinds)
        consumer = Consumer(hello.name, kinds, hello.peer, outbox.put_nowait, outbox.put_nowait, time.monotonic())
        outbox.put_nowait(messages.BrokerMessage(welcome=self._welcome()))
        self._queues.connect(consumer)
        reader = asyncio.create_task(self._listen(consumer, first, requests, outbox))
        try:
            while not isinstance(message := await outbox.get(), str):
                await context.write(message)
        finally:
            with contextlib.suppress(StoreError):  # the broker ends, and its tasks wait in the store
                self._queues.disconnect(consumer)
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        if message:
            await context.abort(grpc.StatusCode.ABORTED, message)

    def end(self) -> None:
        """Disconnect all workers from their work, since the broker ends."""
        for consumer in list(self._queues.consumers):
            consumer.close("the broker ends")

    async def _listen(
        self,
        consumer: Consumer,
        first: messages.WorkerMessage,
        requests: AsyncIterator[messages.WorkerMessage],
        outbox: asyncio.Queue[messages.BrokerMessage | str],
    ) -> None:
        """Take the consumer's messages; at their end put the reason into ``outbox``."""
        reason = ""
        try:
            self._queues.hear(consumer, first)
            async for message in requests:
                if reason := _wrong(message):
                    break
                self._queues.hear(consumer, message)
        except Exception as error:  # bytes that are not a message
            reason = f"the worker's stream broke: {error}"
        outbox.put_nowait(reason)

    def _welcome(self) -> messages.Welcome:
        return messages.Welcome(
            broker_id=self.broker_id,
            beat_seconds=self._timeout / BEATS,
            worker_timeout=self._timeout,
            message_bytes=self._message_bytes,
        )


def _wrong_hello(message: messages.WorkerMessage) -> bool:
    hello = message.hello
    named = 0 < len(hello.name) <= LONGEST_NAME and len(hello.kinds) <= MOST_KINDS
    return not message.HasField("hello") or not named or bool(_wrong(message, first=True))


def _wrong(message: messages.WorkerMessage, first: bool = False) -> str:
    """Return what is wrong with a message, "" for a good one."""
    if message.HasField("hello") and not first:
        return "a second hello"
    if message.capacity > MOST_CAPACITY:
        return f"a capacity of {message.capacity}: {MOST_CAPACITY} is the most"
    known = messages.Outcome.values()
    if any(result.outcome == messages.OUTCOME_UNSPECIFIED or result.outcome not in known for result in message.results):
        return "a result without an outcome"
    return ""
