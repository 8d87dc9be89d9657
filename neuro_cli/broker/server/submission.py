"""Service Submission: a model's calls to a broker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import grpc

from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.server.delivery import Deliveries, Delivery
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import NotYoursError, Store, StoreError, is_lent
from neuro_cli.broker.wire import batches

LONGEST_NAME = 256  # most characters of a run, an id, a kind
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 64  # bytes
MOST_LETTERS = 1000


class SubmissionService:
    """Service of tasks and results. ``payload_limit``: bytes of the largest payload that fits into a message."""

    def __init__(self, queues: Queues, store: Store, deliveries: Deliveries, payload_limit: int) -> None:
        self._queues, self._store, self._deliveries, self._payload_limit = queues, store, deliveries, payload_limit
        self.broker_id = 0

    def end(self, reason: str) -> None:
        """Disconnect all models; those that return submit again what they still wait for."""
        for delivery in self._deliveries.values():
            delivery.end(reason)

    async def Submit(self, request, context):  # noqa: N802
        for task in request.tasks:
            if wrong := self._wrong(task):
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        async with _refusals(context, request.token):
            accepted = self._queues.submit(request.tasks, request.token)
        if request.tasks and not accepted:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the queue is full: wait, then submit again")
        return messages.SubmitReply(accepted=accepted)

    async def Results(self, requests, context):  # noqa: N802
        first = await anext(aiter(requests), messages.ResultsRequest())
        if not 0 < len(first.run) <= LONGEST_NAME or is_lent(first.run):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message must name the run")
        run, token = first.run, first.token
        async with _refusals(context, token):
            self._store.check(run, token)
        self._note(run, token)
        if run in self._deliveries:
            self._deliveries[run].end("another stream of this run was opened")
        delivery = self._deliveries[run] = Delivery(self._store, run)
        reader = asyncio.create_task(self._acknowledgements(delivery, requests))
        try:
            await context.write(messages.ResultsReply())  # shows the model that a broker answers
            try:
                await delivery.push(context.write)
            except StoreError as error:
                delivery.end(str(error))
        finally:
            if self._deliveries.get(run) is delivery:
                del self._deliveries[run]
                self._note(run, token)
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        if delivery.ended != "done":
            await context.abort(grpc.StatusCode.ABORTED, delivery.ended)

    async def Cancel(self, request, context):  # noqa: N802
        if not 0 < len(request.run) <= LONGEST_NAME:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"a run's name has 1 to {LONGEST_NAME} characters")
        async with _refusals(context, request.token):
            self._store.check(request.run, request.token)
            dropped = self._queues.drop(request.run)
        return messages.CancelReply(dropped=dropped)

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
                messages.WorkerInfo(name=one.name, capacity=one.capacity, holding=len(one.tasks), peer=one.peer)
                for one in self._queues.consumers
            ],
        )

    async def DeadLetters(self, request, context):  # noqa: N802
        groups = batches(self._store.letters(min(request.limit or 100, MOST_LETTERS)))
        return messages.DeadLettersReply(letters=groups[0] if groups else [])

    def _note(self, run: str, token: bytes) -> None:
        """Note that the model of a run is connected, without an error where the disk does not take it."""
        with contextlib.suppress(StoreError, NotYoursError):
            self._store.seen(run, token)

    def forget(self, seconds: float) -> list[str]:
        """Drop the runs whose models have not been connected for that long. Returns them."""
        gone = [run for run in self._store.silent(seconds) if run not in self._deliveries]
        for run in gone:
            self._queues.drop(run)
        return gone

    async def _acknowledgements(self, delivery: Delivery, requests: AsyncIterator[messages.ResultsRequest]) -> None:
        try:
            async for request in requests:
                self._store.acknowledge(delivery.run, request.received)
            delivery.end("done")
        except Exception as error:  # bytes that are not a message
            delivery.end(f"the stream of acknowledgements broke: {error}")

    def _wrong(self, task: messages.Task) -> str:
        """Return what is wrong with a task, "" for a good one."""
        for name, text in (("run", task.run), ("id", task.id), ("kind", task.kind)):
            if not 0 < len(text) <= LONGEST_NAME:
                return f"a task's {name} must have 1 to {LONGEST_NAME} characters"
        if is_lent(task.run):
            return "a task's run must not have the name of a broker's own"
        if not 0.0 <= task.timeout_seconds < float("inf"):
            return "timeout_seconds must be a number >= 0"
        if len(task.payload) > self._payload_limit:
            return f"task {task.id}: its payload has {len(task.payload)} bytes, {self._payload_limit} are allowed"
        return ""


@contextlib.asynccontextmanager
async def _refusals(context: grpc.aio.ServicerContext, token: bytes) -> AsyncIterator[None]:
    """End the call with a status for a wrong token, and for a change that the disk does not take."""
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        said = f"a submitter sends the token of its run, {SHORTEST_TOKEN} to {LONGEST_TOKEN} bytes"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, said)
    try:
        yield
    except NotYoursError as error:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
    except StoreError as error:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
