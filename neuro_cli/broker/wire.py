"""gRPC channels and servers of all processes of a cluster: limits, signs of life, mutual TLS, health, reflection.

Clients and handlers come from the descriptors of the ``.proto`` files, so that no further code is generated.
"""

import logging
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import TypeVar

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from neuro_cli.broker.addresses import is_loopback, joined, split
from neuro_cli.broker.proto import broker_pb2, nameserver_pb2
from neuro_cli.broker.settings import Security
from neuro_cli.core.errors import ConfigError
from neuro_cli.tls.task_cluster import read_credentials

PING_SECONDS, PING_TIMEOUT = 10, 10  # a vanished host is noticed after the sum of both
MOST_CALLS = 128  # calls of a connection at a time, each with at most one message half read; others wait
BATCH_BYTES = 2**20  # bytes of a message with more than one task, result or report

SUBMISSION, WORK = (broker_pb2.DESCRIPTOR.services_by_name[name] for name in ("Submission", "Work"))
NAMESERVER = nameserver_pb2.DESCRIPTOR.services_by_name["Nameserver"]

M = TypeVar("M", bound=Message)


def options(security: Security) -> list[tuple[str, int]]:
    """Return the options of gRPC for both ends of a connection."""
    return [
        ("grpc.max_receive_message_length", security.message_bytes),
        ("grpc.max_send_message_length", security.message_bytes),
        ("grpc.keepalive_time_ms", PING_SECONDS * 1000),
        ("grpc.keepalive_timeout_ms", PING_TIMEOUT * 1000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", PING_SECONDS * 500),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_SECONDS * 500),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.enable_http_proxy", 0),
    ]


def payload_limit(security: Security) -> int:
    """Return the bytes of a payload that fit into a message with its other fields."""
    return security.message_bytes - 16384


def batches(parts: Iterable[M]) -> list[list[M]]:
    """Group messages, in their order, so that each group fits into one message; a larger one is a group by itself."""
    groups: list[list[M]] = []
    size = 0
    for part in parts:
        length = part.ByteSize() + 16  # field and length in the message around it
        if not groups or size + length > BATCH_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += length
    return groups


def open_channel(address: str, security: Security) -> grpc.aio.Channel:
    """Open a channel of the running event loop. Raises ConfigError for another machine without certificates for it."""
    _refuse_remote(address, security)
    # gRPC shares connections between channels of the same address; a process that lost one must not wait for another's
    more = [*options(security), ("grpc.use_local_subchannel_pool", 1)]
    if security.certificates is None:
        return grpc.aio.insecure_channel(address, options=more)
    ours = read_credentials(security.certificates)
    credentials = grpc.ssl_channel_credentials(ours.authority, ours.key, ours.certificate)
    return grpc.aio.secure_channel(address, credentials, options=more)


def _refuse_remote(address: str, security: Security) -> None:
    if security.only_here and not is_loopback(address):
        allowed = f"{address} is not on this machine: neuro search certs FOLDER HOST... makes certificates for its hosts"
        raise ConfigError("security.certificates", None, allowed)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Filter gRPC's log: bytes that are not a message are their sender's fault and need no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, DecodeError):
        record.exc_info, record.msg, record.args = None, f"a message that is none was refused: {error}", ()
    return True


logging.getLogger("grpc._cython.cygrpc").addFilter(_in_one_line)


class Server:
    """Server of gRPC on the running event loop: ``services`` with their servicers, health and reflection.

    ``address`` has the actual port where it was 0. Raises ConfigError for an address where it cannot listen.
    """

    def __init__(
        self, key: str, address: str, security: Security, services: Sequence[tuple[ServiceDescriptor, object]]
    ) -> None:  # fmt: skip
        more = [("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", MOST_CALLS)]
        self._server = grpc.aio.server(options=[*options(security), *more])
        self._health = health.aio.HealthServicer()
        self._server.add_generic_rpc_handlers([handler_of(service, servicer) for service, servicer in services])
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = [service.full_name for service, _ in services]
        reflection.enable_server_reflection([*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)
        self.address = joined(split(address)[0], self._bind(key, address, security))

    def _bind(self, key: str, address: str, security: Security) -> int:
        _refuse_remote(address, security)
        try:
            if security.certificates is None:
                return int(self._server.add_insecure_port(address))
            ours = read_credentials(security.certificates)
            credentials = grpc.ssl_server_credentials([(ours.key, ours.certificate)], ours.authority, require_client_auth=True)
            return int(self._server.add_secure_port(address, credentials))
        except RuntimeError as error:
            raise ConfigError(key, address, "nothing can listen there: is the port taken?") from error

    async def start(self) -> None:
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


def reason(error: BaseException) -> str:
    """Return one line about a failed call, or a stream that ended."""
    if not isinstance(error, grpc.RpcError):
        return "its stream ended"
    details = " ".join(str(error.details() or "").split())
    return f"{error.code().name}: {details}"[:300]


class Stub(SimpleNamespace):
    """Client of a ``service`` on ``channel``: an attribute for each of its methods."""

    def __init__(self, service: ServiceDescriptor, channel: grpc.Channel | grpc.aio.Channel) -> None:
        for method in service.methods:
            call = getattr(channel, _pattern(method))(
                f"/{service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)


def handler_of(service: ServiceDescriptor, servicer: object) -> grpc.GenericRpcHandler:
    """Return the handler for a server: each method of ``service`` is the method of ``servicer`` with its name."""
    handlers = {
        method.name: getattr(grpc, f"{_pattern(method)}_rpc_method_handler")(
            getattr(servicer, method.name),
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=GetMessageClass(method.output_type).SerializeToString,
        )
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _pattern(method: MethodDescriptor) -> str:
    """Return gRPC's name for what a method takes and gives, for example ``unary_unary``."""
    return "_".join("stream" if streams else "unary" for streams in (method.client_streaming, method.server_streaming))
