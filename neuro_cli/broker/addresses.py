"""Addresses ``host:port``, and which of them no other machine can reach."""

import ipaddress
import re

from neuro_cli.core.errors import ConfigError

LONGEST = 256  # most characters of an address
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")


def split(address: str) -> tuple[str, int]:
    """Return (host, port); the host is a name, an IPv4 address, or an IPv6 address in brackets. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if len(address) > LONGEST or not colon or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(address)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        ipaddress.IPv6Address(host)
    elif not _NAME.fullmatch(host):
        raise ValueError(address)
    return host, int(port)


def wrong(address: str, only_here: bool) -> str:
    """Return the reason against a connection to ``address``, which another process named; "" without one.

    ``only_here``: only loopback is allowed.
    """
    try:
        _, port = split(address)
    except ValueError:
        port = 0
    if not port:
        return f"{address[:80]!r} is not host:port"
    if only_here and not is_loopback(address):
        return f"{address} is not on this machine"
    return ""


def check_address(key: str, value: object, *, zero: bool = False) -> str:
    """Return ``value`` if it is host:port; port 0 is allowed only with ``zero``. Raises ConfigError."""
    try:
        _, port = split(str(value))
    except ValueError:
        port = 0 if not zero else -1
    if port < 0 or (port == 0 and not zero):
        raise ConfigError(key, value, "must be host:port, for example 127.0.0.1:7700")
    return str(value)


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches ``address``; names other than localhost do not count."""
    host, _ = split(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def joined(host: str, port: int) -> str:
    """Return the address ``host:port``, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
