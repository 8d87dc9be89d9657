"""A broker's side of the nameserver: it registers, keeps saying that it lives, and asks for brokers to help."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

import grpc

from neuro_cli.broker.proto import nameserver_pb2 as messages
from neuro_cli.broker.proto.nameserver_pb2_grpc import NameserverStub
from neuro_cli.broker.settings import Security
from neuro_cli.broker.store import Store
from neuro_cli.broker.wire import distrusts, open_channel, reason, unreachable
from neuro_cli.core.errors import ConfigError

log = logging.getLogger(__name__)

CALL_SECONDS = 5.0
CONNECT_SECONDS = 10.0  # in which a nameserver must answer a process that begins
RETRY_SECONDS = 0.25


async def brokers(stub: NameserverStub, address: str) -> list[messages.BrokerInfo]:
    """All living brokers. Raises UserError if nobody answers at ``address`` for CONNECT_SECONDS, or distrusts us."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return list((await stub.Brokers(messages.BrokersRequest(), timeout=CALL_SECONDS)).brokers)
        except grpc.RpcError as error:
            if time.monotonic() > deadline or distrusts(error):
                raise unreachable("nameserver.address", address, error) from error
        await asyncio.sleep(RETRY_SECONDS)


class Registration:
    """Keeps one broker known. ``describe`` fills in what it has to do at a heartbeat."""

    def __init__(
        self, nameserver: str, security: Security, store: Store, address: str, describe: Callable[[messages.BrokerInfo], None]
    ) -> None:
        self._nameserver, self._store, self._address, self._describe = nameserver, store, address, describe
        self._channel = open_channel(nameserver, security)
        self._stub = NameserverStub(self._channel)
        self._token = store.fact("token") or secrets.token_hex(16)
        store.note("token", self._token)
        self.broker_id = int(store.fact("broker_id") or 0)
        self._beat = 1.0

    async def begin(self) -> None:
        """Register for the first time. Raises UserError."""
        await brokers(self._stub, self._nameserver)
        await self._register()

    async def keep(self) -> None:
        """Send heartbeats for ever, and register again when the nameserver asks for it."""
        silent = False
        while True:
            await asyncio.sleep(self._beat)
            try:
                await self._heartbeat()
                if silent:
                    log.info("the nameserver at %s answers again", self._nameserver)
                silent = False
            except grpc.RpcError as error:
                if not silent:
                    log.warning("the nameserver at %s does not answer (%s)", self._nameserver, reason(error))
                silent = True

    async def peer(self) -> messages.BrokerInfo | None:
        """Another broker, with tasks waiting if there is one."""
        try:
            return await self._stub.Peer(messages.PeerRequest(broker_id=self.broker_id), timeout=CALL_SECONDS)
        except grpc.RpcError:
            return None  # there is none, or no nameserver, which the heartbeat tells

    async def close(self) -> None:
        await self._channel.close()

    async def _register(self) -> None:
        request = messages.RegisterRequest(address=self._address, broker_id=self.broker_id, token=self._token)
        try:
            reply = await self._stub.Register(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.ALREADY_EXISTS:
                raise ConfigError("broker.folder", self._address, f"it is a copy of another broker's: {reason(error)}") from error
            raise
        self.broker_id, self._beat = reply.broker_id, reply.heartbeat_seconds
        self._store.note("broker_id", str(self.broker_id))

    async def _heartbeat(self) -> None:
        info = messages.BrokerInfo(broker_id=self.broker_id, address=self._address)
        self._describe(info)
        try:
            await self._stub.Heartbeat(messages.HeartbeatRequest(broker=info, token=self._token), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            await self._register()
