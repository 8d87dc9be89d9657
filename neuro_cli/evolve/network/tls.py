"""TLS keys: one of the cluster, derived from its secret, and one per name, signed by the cluster's key.

A peer with a certificate signed by the cluster's key knows the secret; a peer that finishes the handshake with it has the key
of its name. So a member cannot speak as another. All connections are TLS 1.3, and both sides show a certificate.
"""

import datetime
import ssl
import tempfile
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from neuro_cli.evolve.network.names import identifier_of

_SALT = b"neuro evolve: key of a cluster, 1"
_COMMON_NAME = "neuro evolve"


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
        # peers of earlier versions show this certificate itself: they pass the handshake, and are refused with a reason
        self.certificate = _certificate(self._key.public_key(), self._key, 1, True)
        self.own = self._credentials(self._key, self.certificate)

    def fresh(self) -> Credentials:
        """Credentials of a new name."""
        key = Ed25519PrivateKey.generate()
        return self._credentials(key, _certificate(key.public_key(), self._key, x509.random_serial_number(), False))

    def _credentials(self, key: Ed25519PrivateKey, certificate: bytes) -> Credentials:
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )  # fmt: skip
        # the ssl module takes keys from files only
        with tempfile.NamedTemporaryFile(prefix="neuro-", suffix=".pem") as file:
            file.write(certificate + private)
            file.flush()
            server, client = (self._context(kind, file.name) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
        return Credentials(identifier_of(key.public_key()), server, client)

    def _context(self, kind: int, pair: str) -> ssl.SSLContext:
        context = ssl.SSLContext(kind)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate names the peer, not its address
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.certificate.decode())
        context.load_cert_chain(pair)
        return context


def _certificate(key: Ed25519PublicKey, signer: Ed25519PrivateKey, serial: int, signs: bool) -> bytes:
    """Certificate of ``key`` as PEM. The cluster's own (``signs``) is the same bytes at every peer."""
    issuer = signer.public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _COMMON_NAME)])
    subject = name if signs else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_COMMON_NAME} {identifier_of(key)}")])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(name)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=signs, crl_sign=False, content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
            ), critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
    )  # fmt: skip
    return builder.sign(signer, None).public_bytes(serialization.Encoding.PEM)
