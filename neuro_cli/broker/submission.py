"""The service Submission: what a model says to a broker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc

from neuro_cli.broker.delivery import Delivery
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import broker_pb2_grpc
from neuro_cli.broker.queues import Queues
from neuro_cli.broker.store import Store

LONGEST_NAME = 256  # characters of a run, an id, a kind
MOST_LETTERS = 1000


class Submission(broker_pb2_grpc.SubmissionServicer):
    """Takes tasks and pushes results. ``payload_limit``: bytes of the largest payload that fits into a message."""

    def __init__(self, queues: Queues, store: Store, payload_limit: int) -> None:
        self._queues, self._store, self._payload_limit = queues, store, payload_limit
        self._deliveries: dict[str, Delivery] = {}
        self.broker_id = 0

    def delivered(self, runs: set[str]) -> None:
        """There are new results of these runs."""
        for run in runs & self._deliveries.keys():
            self._deliveries[run].wake()

    def end(self) -> None:
        """Let go of all models: the broker ends."""
        for delivery in self._deliveries.values():
            delivery.end("the broker ends")

    async def Submit(self, request, context):  # noqa: N802
        for task in request.tasks:
            if wrong := self._wrong(task):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        accepted = self._queues.submit(request.tasks)
        if request.tasks and not accepted:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full: wait, then submit again")
        return messages.SubmitReply(accepted=accepted)

    async def Results(self, requests, context):  # noqa: N802
        first = await anext(aiter(requests), messages.ResultsRequest())
        if not 0 < len(first.run) <= LONGEST_NAME:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must name the run")
        run = first.run
        if run in self._deliveries:
            self._deliveries[run].end("another stream of this run was opened")
        delivery = self._deliveries[run] = Delivery(self._store, run)
        self._store.seen(run)
        reader = asyncio.create_task(self._acknowledgements(delivery, requests))
        try:
            await context.write(messages.ResultsReply())  # so that the model knows that somebody is here
            await delivery.push(context.write)
        finally:
            if self._deliveries.get(run) is delivery:
                del self._deliveries[run]
                self._store.seen(run)
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        if delivery.ended != "done":
            await context.abort(grpc.StatusCode.ABORTED, delivery.ended)

    async def Cancel(self, request, context):  # noqa: N802
        return messages.CancelReply(dropped=self._queues.drop(request.run))

    async def Status(self, request, context):  # noqa: N802
        undelivered, dead = self._store.counts()
        return messages.StatusReply(
            broker_id=self.broker_id,
            waiting=self._queues.waiting.own,
            helping=self._queues.waiting.helping,
            running=self._queues.running,
            undelivered=undelivered,
            dead=dead,
            finished=self._queues.finished,
            workers=[
                messages.WorkerInfo(name=one.name, capacity=one.capacity, holding=len(one.held), peer=one.peer)
                for one in self._queues.consumers
            ],
        )

    async def DeadLetters(self, request, context):  # noqa: N802
        return messages.DeadLettersReply(letters=self._store.letters(min(request.limit or 100, MOST_LETTERS)))

    def forget(self, seconds: float) -> list[str]:
        """Drop what belongs to runs whose models were not there for so long. Returns them."""
        gone = [run for run in self._store.silent(seconds) if run not in self._deliveries]
        for run in gone:
            self._queues.drop(run)
        return gone

    async def _acknowledgements(self, delivery: Delivery, requests: AsyncIterator[messages.ResultsRequest]) -> None:
        try:
            async for request in requests:
                delivery.acknowledge(list(request.received))
            delivery.end("done")
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a message that is none
            delivery.end(f"the stream of acknowledgements broke: {error}")

    def _wrong(self, task: messages.Task) -> str:
        """What is wrong with a task, in words."""
        for name, text in (("run", task.run), ("id", task.id), ("kind", task.kind)):
            if not 0 < len(text) <= LONGEST_NAME:
                return f"a task's {name} must have 1 to {LONGEST_NAME} characters"
        if not 0.0 <= task.timeout_seconds < float("inf"):
            return "timeout_seconds must be a number >= 0"
        if len(task.payload) > self._payload_limit:
            return f"task {task.id}: its payload has {len(task.payload)} bytes, {self._payload_limit} are allowed"
        return ""
