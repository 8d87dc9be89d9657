"""Certificates and TLS contexts, for peers of ``neuro evolve`` and for the processes of a task cluster.

Both sides of every connection show a certificate of one authority (mutual TLS 1.3). Who holds the authority's key is the
caller's matter: each peer derives it from the cluster's secret, a task cluster throws it away once its certificate is signed.
"""

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID

from neuro_cli.core.errors import UserError

Key = Ed25519PrivateKey | EllipticCurvePrivateKey


def named(text: str) -> x509.Name:
    """Return the name of a certificate's subject or issuer."""
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def certificate(
    key: Key,
    subject: x509.Name,
    signer: Key,
    issuer: x509.Name,
    valid: tuple[datetime.datetime, datetime.datetime],
    signs: bool = False,
    serial: int | None = None,
    hosts: Sequence[str] = (),
) -> bytes:
    """Sign a certificate of ``key`` by ``signer``, as PEM.

    ``signs``: it is an authority's. ``serial``: None for a random one. ``hosts``: names and addresses that it holds for. The same
    arguments give the same bytes with Ed25519 keys. Raises UserError for a host that is none.
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number() if serial is None else serial)
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, key_cert_sign=signs, crl_sign=False, content_commitment=False, key_encipherment=False,
                data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
            ), critical=True,
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )  # fmt: skip
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(name) for name in hosts]), critical=False)
    algorithm = None if isinstance(signer, Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signer, algorithm).public_bytes(serialization.Encoding.PEM)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise UserError(f"{name}: not a host name and not an address ({error})") from error


def private_text(key: Key) -> bytes:
    """Return a certificate's private key as PEM, not encrypted."""
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def context(kind: int, authority: str, chain: Path, key: Path | None = None, by_host: bool = False) -> ssl.SSLContext:
    """Return a context that shows the certificate in ``chain`` and takes those of ``authority`` (PEM) alone.

    ``kind``: ``ssl.PROTOCOL_TLS_SERVER`` or ``ssl.PROTOCOL_TLS_CLIENT``. ``key``: file of the private key, None: in ``chain``.
    ``by_host``: the other side's certificate must name its host.
    """
    tls = ssl.SSLContext(kind)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.check_hostname = by_host
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_verify_locations(cadata=authority)
    tls.load_cert_chain(chain, key)
    return tls


def refuses_authority(error: ssl.SSLError) -> bool:
    """Return whether the other end refuses our certificate since it does not know the authority."""
    return str(error.reason or "").endswith("UNKNOWN_CA")
