"""Broker: queues and a store behind two gRPC services, registered at a nameserver, with help for other brokers."""

import asyncio
import logging

from neuro_cli.broker.nameserver.client import Registration
from neuro_cli.broker.proto import nameserver_pb2
from neuro_cli.broker.server.delivery import Deliveries
from neuro_cli.broker.server.peering import Helper
from neuro_cli.broker.server.queues import Queues
from neuro_cli.broker.server.store import Store
from neuro_cli.broker.server.submission import SubmissionService
from neuro_cli.broker.server.work import WorkService
from neuro_cli.broker.settings import BrokerSettings, Security
from neuro_cli.broker.wire import SUBMISSION, WORK, Server, payload_limit

log = logging.getLogger(__name__)

SWEEP_SECONDS = 0.25
STOP_SECONDS = 1.0  # seconds in which calls under way may end
FORGET_LOOK_SECONDS = 5.0


class Broker:
    """Broker of the running event loop. Raises UserError for an address or a folder that is taken."""

    def __init__(self, settings: BrokerSettings, security: Security) -> None:
        self._settings = settings
        self._store = Store(settings.folder, settings.durable)
        deliveries = Deliveries()
        self._queues = Queues(self._store, settings, deliveries.wake)
        self._submission = SubmissionService(self._queues, self._store, deliveries, payload_limit(security))
        self._work = WorkService(self._queues, settings.worker_timeout, security.message_bytes)
        services = (SUBMISSION, self._submission), (WORK, self._work)
        self.server = Server("broker.address", settings.address, security, services)
        self.address = self.server.address
        self._registration = Registration(settings.nameserver, security, self._store, self.address, self._describe)
        self._helper = Helper(self._queues, self._store, deliveries, self._registration, security)

    @property
    def broker_id(self) -> int:
        return self._registration.broker_id

    async def start(self) -> None:
        """Register the broker, then serve. Raises UserError without a nameserver."""
        await self._registration.begin()
        self._submission.broker_id = self._work.broker_id = self.broker_id
        await self.server.start()

    async def work(self) -> None:
        """Work without end. Raises StoreError where the store has failed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registration.keep())
            group.create_task(self._sweep())
            group.create_task(self._forget())
            if self._settings.peering:
                group.create_task(self._helper.run())

    async def close(self) -> None:
        self._work.end()
        self._submission.end("the broker ends")
        await self.server.stop(STOP_SECONDS)
        await self._registration.close()
        self._store.close()

    def _describe(self, info: nameserver_pb2.BrokerInfo) -> None:
        self._submission.broker_id = self._work.broker_id = self.broker_id
        info.waiting = self._queues.waiting.own
        info.running = self._queues.running
        info.workers = sum(not consumer.peer for consumer in self._queues.consumers)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._queues.sweep()
            if self._store.trouble is not None:
                raise self._store.trouble

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET_LOOK_SECONDS)
            for run in self._submission.forget(self._settings.forget_after):
                log.warning("run %s: its model was gone for %g s; its tasks are dropped", run, self._settings.forget_after)
