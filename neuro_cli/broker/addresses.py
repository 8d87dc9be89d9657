"""Addresses ``host:port``, and which of them no other machine can reach."""

import ipaddress

from neuro_cli.core.errors import ConfigError


def split(address: str) -> tuple[str, int]:
    """(host, port); an IPv6 host stands in brackets. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(address)
    return host.removeprefix("[").removesuffix("]"), int(port)


def check_address(key: str, value: object, *, zero: bool = False) -> str:
    """``value`` if it is host:port; port 0 only where ``zero``. Raises ConfigError."""
    try:
        _, port = split(str(value))
    except ValueError:
        port = 0 if not zero else -1
    if port < 0 or (port == 0 and not zero):
        raise ConfigError(key, value, "must be host:port, for example 127.0.0.1:7700")
    return str(value)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches ``address``; another name than localhost does not count, whatever it resolves to."""
    host, _ = split(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def joined(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
