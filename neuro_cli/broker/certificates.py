"""``neuro search certs FOLDER [NAME ...]``: a certificate authority of one's own, and the certificate of a cluster's processes.

All processes of a cluster show the same certificate or others of the same authority, as servers and as clients alike.
"""

import datetime
import ipaddress
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from neuro_cli.broker.credentials import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY, default_folder
from neuro_cli.core.errors import ConfigError, UserError

log = logging.getLogger(__name__)

DAYS = 825
ALWAYS = ("localhost", "127.0.0.1", "::1")


def make_certificates(folder: Path, names: Sequence[str] = (), *, keep_authority: bool = True) -> list[Path]:
    """Make an authority, unless the folder has one, and a node certificate by it for this host and ``names``.

    The key of the authority (ca.key) is needed for more certificates only: no process of a cluster reads it, and with
    ``keep_authority`` false it is not there. Returns the files written. Raises UserError: a node certificate is there already.
    """
    if (folder / CERTIFICATE).exists() or (folder / KEY).exists():
        raise UserError(f"{folder}: {CERTIFICATE} is there already; choose another folder or remove it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = [] if (folder / AUTHORITY_KEY).exists() else _make_authority(folder)
    made += _make_node(folder, [*dict.fromkeys((*ALWAYS, socket.gethostname(), *names))])
    if not keep_authority:
        (folder / AUTHORITY_KEY).unlink()
    return [path for path in made if path.exists()]


def own_certificates() -> Path:
    """Folder of this user's certificates for this machine, made at the first time. Raises ConfigError."""
    folder = default_folder()
    if (folder / KEY).exists():
        return folder
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".cluster-", dir=folder.parent))  # for its owner alone
        try:
            make_certificates(draft, keep_authority=False)
            os.rename(draft, folder)  # in one step: processes of a cluster are started together
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            if not (folder / KEY).exists():
                raise
    except OSError as error:
        allowed = (
            f"{folder} cannot be made ({error.strerror}); neuro search certs FOLDER makes one for security.certificates=FOLDER"
        )
        raise ConfigError("security.certificates", None, allowed) from error
    log.info("certificates for this user's clusters on this machine are in %s", folder)
    return folder


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
    descriptor = os.open(folder / certificate_name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o644)
        file.write(certificate)
    return [folder / certificate_name, folder / key_name]
