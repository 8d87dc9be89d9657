"""TLS keys: one of the cluster, derived from its secret, and one per name, signed by the cluster's key.

A peer with a certificate signed by the cluster's key knows the secret. A peer that finishes the handshake with it has the key
of its name, so a member cannot speak as another.
"""

import datetime
import hashlib
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from neuro_cli.tls.certificates import certificate, context, named, private_text

_SALT = b"neuro evolve: key of a cluster, 1"
_COMMON_NAME = "neuro evolve"
_VALID = (datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1))  # the same bytes at every peer, whatever its clock says


@dataclass(frozen=True)
class Credentials:
    """Credentials of one name: its identifier, and TLS contexts of a server and of a client with its key."""

    identifier: str
    server: ssl.SSLContext
    client: ssl.SSLContext


class Authority:
    """Signs names with the cluster's key, which scrypt derives from ``secret``, the same at every peer."""

    def __init__(self, secret: str) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(Scrypt(salt=_SALT, length=32, n=2**15, r=8, p=1).derive(secret.encode()))
        name = named(_COMMON_NAME)
        self.certificate = certificate(self._key, name, self._key, name, _VALID, signs=True, serial=1)

    def fresh(self) -> Credentials:
        """Draw the key of a new name, and return its credentials."""
        key = Ed25519PrivateKey.generate()
        identifier = identifier_of(key.public_key())
        shown = certificate(key, named(f"{_COMMON_NAME} {identifier}"), self._key, named(_COMMON_NAME), _VALID)
        # the ssl module takes keys from files only
        with tempfile.NamedTemporaryFile(prefix="neuro-", suffix=".pem") as file:
            file.write(shown + private_text(key))
            file.flush()
            server, client = (
                context(kind, self.certificate.decode(), Path(file.name))  # the certificate names the peer, no host
                for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
            )
        return Credentials(identifier, server, client)


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
