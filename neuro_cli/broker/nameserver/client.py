"""Broker's side of the nameserver: registration, heartbeats, and the search for brokers to help."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import grpc

from neuro_cli.broker.addresses import wrong
from neuro_cli.broker.nameserver.registry import LARGEST_ID
from neuro_cli.broker.proto import nameserver_pb2 as messages
from neuro_cli.broker.server.store import Store, StoreError
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import NAMESERVER, Stub, open_channel, reason
from neuro_cli.core.errors import ConfigError

log = logging.getLogger(__name__)

CALL_SECONDS = 5.0
CONNECT_SECONDS = 10.0  # seconds in which a nameserver must answer a process that begins
RETRY_SECONDS = 0.25
TRUST = "a closed socket or a failed handshake means that the two ends have no certificates of one authority"
MIN_BEAT, LONGEST_BEAT = 0.01, 60.0
MOST_SKIPPED = 100  # wrong entries that are reported
_skipped: set[tuple[int, str]] = set()


async def brokers(stub: Stub, address: str, security: Security) -> list[messages.BrokerInfo]:
    """Ask the nameserver for all living brokers. Raises ConfigError without an answer from ``address`` in CONNECT_SECONDS."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return usable((await stub.Brokers(messages.BrokersRequest(), timeout=CALL_SECONDS)).brokers, security)
        except grpc.RpcError as error:
            said = reason(error)
            if time.monotonic() > deadline or "handshake failed" in said:
                raise ConfigError("nameserver.address", address, f"no answer ({said}); {TRUST}") from error
        await asyncio.sleep(RETRY_SECONDS)


def usable(known: Iterable[messages.BrokerInfo], security: Security) -> list[messages.BrokerInfo]:
    """Return the brokers to which a process may connect. Others are left out, and each is reported once."""
    kept = []
    for info in known:
        reason = wrong(info.address, security.only_here)
        if not 0 < info.broker_id <= LARGEST_ID:
            reason = "its id is out of range"
        if not reason:
            kept.append(info)
        elif (info.broker_id, info.address) not in _skipped and len(_skipped) < MOST_SKIPPED:
            _skipped.add((info.broker_id, info.address))
            log.warning("broker %d, which the nameserver names, is left out: %s", info.broker_id, reason)
    return kept


class Registration:
    """Registration of one broker at the nameserver. ``describe`` fills in its work at each heartbeat."""

    def __init__(
        self, nameserver: str, security: Security, store: Store, address: str, describe: Callable[[messages.BrokerInfo], None]
    ) -> None:
        self._nameserver, self._store, self._address, self._describe = nameserver, store, address, describe
        self._security = security
        self._channel = open_channel(nameserver, security)
        self._stub = Stub(NAMESERVER, self._channel)
        self._token = store.drawn("token", 16)
        kept = store.fact("broker_id") or "0"
        self.broker_id = int(kept) if kept.isdecimal() and len(kept) < 20 and int(kept) <= LARGEST_ID else 0
        self._beat = 1.0

    async def begin(self) -> None:
        """Register at the nameserver for the first time. Raises UserError."""
        await brokers(self._stub, self._nameserver, self._security)
        await self._register()

    async def keep(self) -> None:
        """Send heartbeats without end, and register again when the nameserver asks for it."""
        silent = False
        while True:
            await asyncio.sleep(self._beat)
            try:
                await self._heartbeat()
                if silent:
                    log.info("the nameserver at %s answers again", self._nameserver)
                silent = False
            except (grpc.RpcError, ConfigError) as error:  # the latter: another broker has got our id meanwhile
                if not silent:
                    said = reason(error) if isinstance(error, grpc.RpcError) else str(error)
                    log.warning("the nameserver at %s does not answer (%s)", self._nameserver, said)
                silent = True

    async def peer(self) -> messages.BrokerInfo | None:
        """Ask the nameserver for another broker, one with waiting tasks where possible; None without another."""
        try:
            other = await self._stub.Peer(messages.PeerRequest(broker_id=self.broker_id), timeout=CALL_SECONDS)
        except grpc.RpcError:
            return None  # no other broker, or no nameserver, which the heartbeat reports
        return next(iter(usable([other], self._security)), None)

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
        beat = reply.heartbeat_seconds
        self._beat = min(max(beat, MIN_BEAT), LONGEST_BEAT) if math.isfinite(beat) else 1.0
        if reply.broker_id != self.broker_id:
            self.broker_id = reply.broker_id
            with suppress(StoreError):  # a full disk, which the store reports: the broker asks for an id again after a restart
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
