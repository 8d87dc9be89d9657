"""Model's side of the brokers: submit tasks, take results, and change the broker when the present one is lost."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import grpc

from neuro_cli.broker.nameserver.client import CALL_SECONDS, brokers, usable
from neuro_cli.broker.proto import broker_pb2 as messages
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import NAMESERVER, SUBMISSION, Stub, batches, open_channel, reason
from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

RETURN_SECONDS = 3.0  # seconds in which a lost broker may return with its tasks
RETRY_SECONDS = 0.2
FULL_SECONDS = 0.05  # seconds after which a full queue is tried again
BATCH = 500  # most tasks of a message
CLOSE_SECONDS = 2.0


class BrokerLostError(Exception):
    """Raised when the broker in use no longer answers."""


class Submitter:
    """Submitter of one run's tasks, which it stores until their results arrive. For one event loop."""

    def __init__(self, nameserver: str, run: str, token: bytes, security: Security) -> None:
        self._nameserver, self._run, self._token, self._security = nameserver, run, token, security
        self._names_channel = open_channel(nameserver, security)
        self._names = Stub(NAMESERVER, self._names_channel)
        self._unsent: dict[str, messages.Task] = {}
        self._outstanding: dict[str, messages.Task] = {}  # tasks that a broker has taken
        self._finished: set[str] = set()
        self._early: dict[str, messages.Result] = {}  # results of the run's earlier process: at most what it left at the brokers
        self._arrived: list[messages.Result] = []
        self._news = asyncio.Condition()
        self._broker: nameserver_pb2.BrokerInfo | None = None
        self._left: dict[int, nameserver_pb2.BrokerInfo] = {}  # brokers that may still have tasks which others took over
        self._lost_since: float | None = None
        self._trouble = ""
        self._work: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Connect the submitter to brokers. Raises UserError without a nameserver."""
        await brokers(self._names, self._nameserver, self._security)
        self._lost_since = time.monotonic()
        self._trouble = f"the nameserver at {self._nameserver} knows no broker"
        self._work = asyncio.create_task(self._keep())

    async def submit(self, tasks: Sequence[messages.Task], patience: float) -> None:
        """Submit tasks, and return when a broker has them. Raises UserError."""
        async with self._news:
            self._unsent.update((task.id, task) for task in tasks)
            early = [self._early.pop(task.id) for task in tasks if task.id in self._early]
            self._arrived += [result for result in early if self._is_awaited(result)]
            self._news.notify_all()
        ids = {task.id for task in tasks}
        while not ids.isdisjoint(self._unsent):
            await self._wait(1.0, patience)

    async def results(self, timeout: float, patience: float) -> list[messages.Result]:
        """Return the results since the last call; wait for the first. Raises UserError when the brokers are lost for too long."""
        deadline = time.monotonic() + timeout
        while not self._arrived and (left := deadline - time.monotonic()) > 0:
            await self._wait(min(left, 1.0), patience)
        results, self._arrived = self._arrived, []
        return results

    async def facts(self) -> dict[str, Any]:
        """Sum up the work of the cluster on the submitted tasks."""
        known = await self._living()
        return {
            "brokers": len(known),
            "workers": sum(info.workers for info in known),
            "waiting": sum(info.waiting for info in known),
            "running": sum(info.running for info in known),
            "outstanding": len(self._outstanding) + len(self._unsent),
            "broker": "" if self._broker is None else self._broker.address,
        }

    async def close(self) -> None:
        """Let the broker forget the run that submitted tasks."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError, UserError):  # the latter reached the caller that asked for results
                await self._work
        last = [self._broker] if self._broker is not None and (self._outstanding or self._unsent) else []
        for broker in [*last, *self._left.values()]:
            await self._cancel(broker)
        await self._names_channel.close()

    async def _wait(self, seconds: float, patience: float) -> None:
        """Wait until something happens. Raises UserError where no broker was available for too long."""
        if self._work is not None and self._work.done():
            self._work.result()
        if self._lost_since is not None and time.monotonic() - self._lost_since > patience:
            raise UserError(f"no broker for {patience:g} s: {self._trouble}")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._news:
                await self._news.wait()

    async def _keep(self) -> None:
        """Use one broker after the other."""
        while True:
            broker = await self._choose()
            if broker is None:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if self._broker is not None and broker.broker_id != self._broker.broker_id:
                log.warning(
                    "broker %d does not return: %d tasks go to broker %d at %s",
                    self._broker.broker_id, len(self._outstanding | self._unsent), broker.broker_id, broker.address,
                )  # fmt: skip
                self._left[self._broker.broker_id] = self._broker
            # a broker does not take a task twice
            self._unsent, self._outstanding = self._outstanding | self._unsent, {}
            self._broker = broker
            self._left.pop(broker.broker_id, None)
            try:
                await self._use(broker)
            except BrokerLostError as error:
                if self._lost_since is None:
                    self._lost_since = time.monotonic()
                    log.warning("broker %d at %s is lost: %s", broker.broker_id, broker.address, error)
                self._trouble = f"broker at {broker.address}: {error}"
            await asyncio.sleep(RETRY_SECONDS)

    async def _choose(self) -> nameserver_pb2.BrokerInfo | None:
        """Choose the former broker while it exists or may return, else the one with the least work."""
        known = await self._living()
        if self._broker is not None:
            same = [info for info in known if info.broker_id == self._broker.broker_id]
            if self._lost_since is None or time.monotonic() - self._lost_since < RETURN_SECONDS:
                return same[0] if same else self._broker
            known = [info for info in known if info not in same] or same
        return min(known, key=lambda info: (info.waiting + info.running, info.broker_id), default=None)

    async def _use(self, broker: nameserver_pb2.BrokerInfo) -> None:
        """Submit to a broker and take its results without end. Raises BrokerLostError."""
        channel = open_channel(broker.address, self._security)
        stub = Stub(SUBMISSION, channel)
        call = stub.Results()
        try:
            await call.write(messages.ResultsRequest(run=self._run, token=self._token))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._take(call))
                group.create_task(self._submit_all(stub))
                group.create_task(self._clear_up())
        except (grpc.RpcError, asyncio.InvalidStateError, ExceptionGroup) as error:
            raise _lost(error) from error
        finally:
            call.cancel()
            await channel.close()

    async def _take(self, call: grpc.aio.StreamStreamCall) -> None:
        async for reply in call:
            self._found_broker()
            new = [result for result in reply.results if self._is_awaited(result)]
            async with self._news:
                self._arrived += new
                self._news.notify_all()
            if reply.results:
                await call.write(messages.ResultsRequest(received=[result.id for result in reply.results]))
        raise asyncio.InvalidStateError("it ended the stream of results")

    def _is_awaited(self, result: messages.Result) -> bool:
        """Mark a submitted task as done. Returns False for a second result, and for a task that has not been submitted yet."""
        task_id = result.id
        if task_id in self._finished:
            return False
        if task_id not in self._outstanding and task_id not in self._unsent:
            self._early[task_id] = result  # the result may be of an earlier process of the same run, and this one may ask for it
            return False
        self._outstanding.pop(task_id, None)
        self._unsent.pop(task_id, None)
        self._finished.add(task_id)
        return True

    async def _submit_all(self, stub: Stub) -> None:
        while True:
            async with self._news:
                await self._news.wait_for(lambda: self._unsent)
            batch = batches(islice(self._unsent.values(), BATCH))[0]
            try:
                reply = await stub.Submit(messages.SubmitRequest(tasks=batch, token=self._token), timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                self._found_broker()  # the broker lives, and is full
                await asyncio.sleep(FULL_SECONDS)
                continue
            self._found_broker()
            async with self._news:
                for task in batch[: reply.accepted]:
                    if self._unsent.pop(task.id, None) is not None:  # otherwise its result has arrived
                        self._outstanding[task.id] = task
                self._news.notify_all()

    async def _clear_up(self) -> None:
        """Tell brokers that return that their tasks are done elsewhere."""
        while True:
            await asyncio.sleep(RETURN_SECONDS)
            if self._left:
                living = {info.broker_id: info for info in await self._living()}
                for broker_id in self._left.keys() & living.keys():
                    if await self._cancel(living[broker_id]):
                        self._left.pop(broker_id)

    async def _cancel(self, broker: nameserver_pb2.BrokerInfo) -> bool:
        """Return whether the broker has dropped the run."""
        channel = open_channel(broker.address, self._security)
        dropped = False
        with suppress(grpc.RpcError):
            await Stub(SUBMISSION, channel).Cancel(
                messages.CancelRequest(run=self._run, token=self._token), timeout=CLOSE_SECONDS
            )
            dropped = True
        await channel.close()
        return dropped

    async def _living(self) -> list[nameserver_pb2.BrokerInfo]:
        try:
            return usable(
                (await self._names.Brokers(nameserver_pb2.BrokersRequest(), timeout=CALL_SECONDS)).brokers, self._security
            )
        except grpc.RpcError as error:
            self._trouble = f"nameserver at {self._nameserver}: {reason(error)}"
            return []

    def _found_broker(self) -> None:
        if self._lost_since is not None and self._broker is not None:
            log.info("using broker %d at %s", self._broker.broker_id, self._broker.address)
        self._lost_since = None


def _lost(error: BaseException) -> BaseException:
    """Convert the error, or errors, of a stream that ended to a BrokerLostError; others stay as they are.

    A UserError where the broker says that the run is another submitter's.
    """
    if isinstance(error, ExceptionGroup):
        if error.split((grpc.RpcError, asyncio.InvalidStateError))[1] is not None:
            return error
        return _lost(error.exceptions[0])
    if isinstance(error, grpc.RpcError) and error.code() == grpc.StatusCode.PERMISSION_DENIED:
        return UserError(str(error.details()))
    return BrokerLostError(reason(error))
