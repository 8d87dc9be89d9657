"""The folder of certificates that a process of a cluster is given, and what it reads of it."""

from dataclasses import dataclass
from pathlib import Path

from neuro_cli.core.errors import ConfigError

AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "node.crt", "node.key"


@dataclass(frozen=True)
class Credentials:
    """PEM texts: what a process shows, and whose certificates it takes."""

    authority: bytes
    certificate: bytes
    key: bytes


def read_credentials(folder: Path) -> Credentials:
    """Raises ConfigError for a folder without them."""
    try:
        return Credentials(*((folder / name).read_bytes() for name in (AUTHORITY, CERTIFICATE, KEY)))
    except OSError as error:
        allowed = f"{Path(str(error.filename)).name} cannot be read ({error.strerror}); neuro search certs {folder} makes it"
        raise ConfigError("security.certificates", folder, allowed) from error
