"""Reasons why a process was not reached: no listener, or an end that refuses the other's certificate."""

import asyncio
import re
import socket
import ssl

import grpc

from neuro_cli.broker.addresses import split
from neuro_cli.broker.credentials import AUTHORITY, CERTIFICATE, KEY
from neuro_cli.broker.settings import Security
from neuro_cli.broker.wire import reason
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.tls import ALERTS, alert_of, context

PROBE_SECONDS = 3.0
NOBODY = "nobody answers there"
UNFIT = "the certificates of the two ends do not fit: "
REFUSED = "the other end refuses ours: it is of another authority, or out of date by the other end's clock"


async def unreachable(key: str, address: str, security: Security, error: grpc.RpcError) -> UserError:
    """Return the error of a process that never reached another, with the reason."""
    said = await asyncio.to_thread(examine, address, security)
    return ConfigError(key, address, f"{said} ({reason(error)})")


async def distrusted(address: str, security: Security) -> bool:
    """Return whether the two ends refuse each other, so that no call will succeed."""
    return (await asyncio.to_thread(examine, address, security)).startswith(UNFIT)


def examine(address: str, security: Security) -> str:
    """Describe what listens at ``address``, by one connection."""
    try:
        with socket.create_connection(split(address), PROBE_SECONDS) as link:
            if security.certificates is None:
                return "somebody listens there, but does not answer in plaintext"
            return _shaken(link, split(address)[0], security)
    except OSError:
        return NOBODY


def _shaken(link: socket.socket, host: str, security: Security) -> str:
    assert security.certificates is not None
    folder = security.certificates
    authority = (folder / AUTHORITY).read_text()
    tls = context(ssl.PROTOCOL_TLS_CLIENT, authority, folder / CERTIFICATE, folder / KEY, by_host=True)
    tls.set_alpn_protocols(["h2"])
    try:
        with tls.wrap_socket(link, server_hostname=host) as secured:
            if not secured.recv(1):  # with TLS 1.3 the other end checks our certificate after our handshake; gRPC reports nothing
                return UNFIT + REFUSED
    except ssl.SSLCertVerificationError as error:
        return UNFIT + f"that of the other end is refused ({error.verify_message})"
    except ssl.SSLError as error:
        if alert := alert_of(error):
            return UNFIT + ALERTS[alert]
        if error.reason in ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE"):
            return UNFIT + "the other end speaks plaintext or no TLS"
        return UNFIT + re.sub(r"\s+", " ", str(error))
    except TimeoutError:
        return "somebody listens there, but does not answer"
    return "somebody listens there, but does not answer as neuro does"
