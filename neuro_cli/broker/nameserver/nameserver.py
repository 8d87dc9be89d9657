"""Nameserver: gRPC service of the registry of brokers."""

import grpc

from neuro_cli.broker.addresses import wrong
from neuro_cli.broker.nameserver.registry import LARGEST_ID, Registry, TakenError, UnknownError
from neuro_cli.broker.proto import nameserver_pb2 as messages
from neuro_cli.broker.settings import NameserverSettings, Security
from neuro_cli.broker.wire import NAMESERVER, Server

BEATS = 8  # heartbeats in the timeout of a broker
LONGEST = 256  # bounds of a token's characters


class Nameserver:
    """Server of a registry. Construct it inside the event loop. Raises UserError for an address that is taken."""

    def __init__(self, settings: NameserverSettings, security: Security) -> None:
        self._beat = settings.timeout / BEATS
        self._only_here = security.only_here
        self._registry = Registry(settings.timeout)
        self.server = Server("nameserver.address", settings.address, security, [(NAMESERVER, self)])

    async def Register(self, request, context):  # noqa: N802
        await self._check(context, request.address, request.token, request.broker_id)
        try:
            number = self._registry.register(request.address, request.broker_id, request.token)
        except TakenError as error:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error))
        return messages.RegisterReply(broker_id=number, heartbeat_seconds=self._beat)

    async def Heartbeat(self, request, context):  # noqa: N802
        await self._check(context, request.broker.address, request.token, request.broker.broker_id)
        try:
            self._registry.heartbeat(request.broker, request.token)
        except UnknownError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        return messages.HeartbeatReply()

    async def Brokers(self, request, context):  # noqa: N802
        return messages.BrokersReply(brokers=self._registry.living())

    async def Peer(self, request, context):  # noqa: N802
        try:
            return self._registry.peer(request.broker_id)
        except UnknownError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))

    async def _check(self, context: grpc.aio.ServicerContext, address: str, token: str, broker_id: int) -> None:
        """Refuse a request that no broker sends."""
        reason = wrong(address, self._only_here)
        if not 0 < len(token) <= LONGEST or broker_id > LARGEST_ID:
            reason = f"a token has 1 to {LONGEST} characters, an id is at most {LARGEST_ID}"
        if reason:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"a broker tells its address, its token and its id: {reason}")
