"""Who knows the cluster's secret may speak: TLS 1.3, both sides shown the one certificate whose key the secret gives.

The key is derived by scrypt, so every peer makes the same certificate and accepts no other. Authentication, encryption and
forward secrecy are TLS's own. A byte of somebody without the secret ends in the TLS library.
"""

import datetime
import os
import secrets
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from neuro_cli.core.errors import ConfigError, UserError

VARIABLE = "NEURO_CLUSTER_SECRET"
SHORTEST = 16
_SALT = b"neuro evolve: key of a cluster, 1"


def new_secret() -> str:
    """128 random bits."""
    return secrets.token_urlsafe(16)


def given_secret(file: str | None) -> str | None:
    """The secret in ``file`` (``cluster.secret_file``), else in the environment; None without either. Raises ConfigError."""
    if file is None:
        secret = os.environ.get(VARIABLE)
        source = VARIABLE
    else:
        source = "cluster.secret_file"
        try:
            secret = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(source, file, f"cannot be read: {error}") from error
    if secret is not None and len(secret) < SHORTEST:
        raise UserError(f"{source}: the secret has {len(secret)} characters, at least {SHORTEST} are needed")
    return secret


def contexts(secret: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a server and of a client that know ``secret``."""
    key = Ed25519PrivateKey.from_private_bytes(Scrypt(salt=_SALT, length=32, n=2**15, r=8, p=1).derive(secret.encode()))
    certificate = _certificate(key)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )  # fmt: skip
    # the ssl module takes keys from files only
    with tempfile.NamedTemporaryFile(prefix="neuro-", suffix=".pem") as file:
        file.write(certificate + private)
        file.flush()
        pair = tuple(_context(kind, certificate, file.name) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT))
    return pair[0], pair[1]


def _context(kind: int, certificate: bytes, pair: str) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate says what one knows, not where one is
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode())
    context.load_cert_chain(pair)
    return context


def _certificate(key: Ed25519PrivateKey) -> bytes:
    """Self-signed, and the same bytes for the same key: Ed25519 signs without randomness."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "neuro evolve")])
    public = key.public_key()
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2120, 1, 1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=True, crl_sign=False, content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
            ), critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
    )  # fmt: skip
    return builder.sign(key, None).public_bytes(serialization.Encoding.PEM)
