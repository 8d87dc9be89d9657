"""``neuro search certs FOLDER [NAME ...]``: a certificate authority of one's own, and the certificate of a cluster's processes.

All processes of a cluster show the same certificate or others of the same authority, as servers and as clients alike.
"""

import datetime
import ipaddress
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from neuro_cli.broker.credentials import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY
from neuro_cli.core.errors import UserError

DAYS = 825
ALWAYS = ("localhost", "127.0.0.1", "::1")


def make_certificates(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Make an authority, unless the folder has one, and a node certificate by it for this host and ``names``.

    The key of the authority (ca.key) is needed for more certificates only: no process of a cluster reads it.
    Returns the files written. Raises UserError: a node certificate is there already.
    """
    if (folder / CERTIFICATE).exists() or (folder / KEY).exists():
        raise UserError(f"{folder}: {CERTIFICATE} is there already; choose another folder or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    made = [] if (folder / AUTHORITY_KEY).exists() else _make_authority(folder)
    return [*made, *_make_node(folder, [*dict.fromkeys((*ALWAYS, socket.gethostname(), *names))])]


def _make_authority(folder: Path) -> list[Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("neuro cluster authority")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _write(folder, (AUTHORITY, AUTHORITY_KEY), _signed(builder, key), key)


def _make_node(folder: Path, names: Sequence[str]) -> list[Path]:
    authority = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
    signing = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_named("neuro cluster node"), authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    return _write(folder, (CERTIFICATE, KEY), _signed(builder, signing), key)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise UserError(f"{name}: not a host name and not an address ({error})") from error


def _builder(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    return bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def _write(folder: Path, names: tuple[str, str], certificate: bytes, key: ec.EllipticCurvePrivateKey) -> list[Path]:
    certificate_name, key_name = names
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    descriptor = os.open(folder / key_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
    (folder / certificate_name).write_bytes(certificate)
    return [folder / certificate_name, folder / key_name]
