"""Names of peers, ``identifier@host:port``. The identifier is the hash of a key that only the peer has."""

import hashlib
import re

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

HOST = r"\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
NAME = re.compile(rf"[0-9a-f]{{32}}@(?:{HOST}):[0-9]{{1,5}}")


def identifier_of(key: Ed25519PublicKey) -> str:
    """Return the identifier of a public key: the first 16 bytes of its SHA-256, 32 hex digits."""
    return hashlib.sha256(key.public_bytes_raw()).digest()[:16].hex()


def identifier_in(certificate: bytes | None) -> str:
    """Return the identifier of a certificate (DER). Raises ConnectionError for one of another kind."""
    if certificate is None:
        raise ConnectionError("no certificate")
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError as error:
        raise ConnectionError("a certificate that cannot be read") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConnectionError("a certificate without an Ed25519 key")
    return identifier_of(key)


def address_of(peer: str) -> str:
    """Return the address HOST:PORT of a name, or of an address."""
    return peer.rpartition("@")[2]


def is_name(text: object) -> bool:
    return isinstance(text, str) and NAME.fullmatch(text) is not None
