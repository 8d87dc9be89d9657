"""gRPC channels and servers as all processes of a cluster use them: limits, signs of life, mutual TLS, health, reflection."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from neuro_cli.broker.addresses import is_loopback, joined, split
from neuro_cli.broker.credentials import Credentials, read_credentials
from neuro_cli.broker.settings import Security
from neuro_cli.core.errors import ConfigError

PING_SECONDS, PING_TIMEOUT = 10, 10  # a host that vanished is noticed after both
MOST_CALLS = 128  # of one connection at a time, each with a message of security.message_bytes half read at most; others wait
BATCH_BYTES = 2**20  # payloads of one message, if there is more than one


def options(security: Security) -> list[tuple[str, int]]:
    """Options for both ends of a connection."""
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
    """Bytes of a task's or result's payload that fit into a message with what stands around it."""
    return security.message_bytes - 16384


def open_channel(address: str, security: Security) -> grpc.aio.Channel:
    """Open a channel of the running event loop. Raises ConfigError for one to another machine without certificates for it."""
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
    """Filter of gRPC's log: a message that is none is its sender's fault and needs no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, DecodeError):
        record.exc_info, record.msg, record.args = None, f"a message that is none was refused: {error}", ()
    return True


logging.getLogger("grpc._cython.cygrpc").addFilter(_in_one_line)


class Server:
    """Server of gRPC on the running event loop: its own services, health and reflection.

    ``names``: full names of the services; ``add`` registers them. ``address`` gets the port that was found, where it was 0.
    Raises ConfigError for an address that cannot be had.
    """

    def __init__(self, key: str, address: str, security: Security, names: Sequence[str], add: Callable[[Any], None]) -> None:
        more = [("grpc.so_reuseport", 0), ("grpc.max_concurrent_streams", MOST_CALLS)]
        self._server = grpc.aio.server(options=[*options(security), *more])
        self._health = health.aio.HealthServicer()
        add(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = names
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)
        self.address = joined(split(address)[0], self._bind(key, address, security))

    def _bind(self, key: str, address: str, security: Security) -> int:
        _refuse_remote(address, security)
        try:
            if security.certificates is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, _server_credentials(read_credentials(security.certificates))))
        except RuntimeError as error:
            raise ConfigError(key, address, "nothing can listen there: is the port taken?") from error

    async def start(self) -> None:
        await self._server.start()
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


def _server_credentials(ours: Credentials) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials([(ours.key, ours.certificate)], ours.authority, require_client_auth=True)


def reason(error: grpc.RpcError) -> str:
    """One line about a call that failed."""
    details = " ".join(str(error.details() or "").split())
    return f"{error.code().name}: {details}"[:300]
