"""Folder of certificates of a task cluster: ``neuro search certs FOLDER [NAME ...]`` writes it, and the processes read it.

All processes of a cluster show the same certificate or others of the same authority, as servers and as clients alike. They read
a folder only where nobody else can have read or changed it.
"""

import datetime
import logging
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.tls.certificates import certificate, named, private_text

log = logging.getLogger(__name__)

AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "node.crt", "node.key"
SETTING = "security.certificates"
DAYS = 825
ALWAYS = ("localhost", "127.0.0.1", "::1")


def make_certificates(folder: Path, names: Sequence[str] = (), *, keep_authority: bool = True) -> list[Path]:
    """Make an authority, unless the folder has one, and a node certificate by it for this host and ``names``.

    Only further certificates need the key of the authority (ca.key): no process of a cluster reads it, and ``keep_authority``
    false removes it. Returns the written files. Raises UserError where a node certificate exists.
    """
    if (folder / CERTIFICATE).exists() or (folder / KEY).exists():
        raise UserError(f"{folder}: {CERTIFICATE} exists already; choose another folder or remove it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = [] if (folder / AUTHORITY_KEY).exists() else _make_authority(folder)
    paths += _make_node(folder, [*dict.fromkeys((*ALWAYS, socket.gethostname(), *names))])
    if not keep_authority:
        (folder / AUTHORITY_KEY).unlink()
    return [path for path in paths if path.exists()]


def own_certificates() -> Path:
    """Return the folder of this user's certificates for this machine, created on first use. Raises ConfigError."""
    folder = default_folder()
    if (folder / KEY).exists():
        return folder
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".cluster-", dir=folder.parent))  # readable by its owner alone
        try:
            make_certificates(draft, keep_authority=False)
            os.rename(draft, folder)  # a single step, since processes of a cluster start together
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
    key, name = ec.generate_private_key(ec.SECP256R1()), named("neuro cluster authority")
    return _write(folder, (AUTHORITY, AUTHORITY_KEY), certificate(key, name, key, name, _validity(), signs=True), key)


def _make_node(folder: Path, names: Sequence[str]) -> list[Path]:
    authority = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
    signing = serialization.load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)
    key, subject = ec.generate_private_key(ec.SECP256R1()), named("neuro cluster node")
    text = certificate(key, subject, signing, authority.subject, _validity(), hosts=names)
    return _write(folder, (CERTIFICATE, KEY), text, key)


def _validity() -> tuple[datetime.datetime, datetime.datetime]:
    now = datetime.datetime.now(datetime.UTC)
    return now - datetime.timedelta(hours=1), now + datetime.timedelta(days=DAYS)  # the hour allows for clocks that differ


def _write(folder: Path, names: tuple[str, str], text: bytes, key: ec.EllipticCurvePrivateKey) -> list[Path]:
    """Write a certificate and its key, which its owner alone can read. Returns both files."""
    certificate_name, key_name = names
    descriptor = os.open(folder / key_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(private_text(key))
    descriptor = os.open(folder / certificate_name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o644)
        file.write(text)
    return [folder / certificate_name, folder / key_name]


@dataclass(frozen=True)
class Credentials:
    """Texts in PEM: the certificate that a process shows, with its key, and the authority that it trusts."""

    authority: bytes
    certificate: bytes
    key: bytes


def user_folder() -> Path:
    """Return the folder of this user's keys and tokens. Raises UserError."""
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "neuro"
    except RuntimeError as error:
        raise UserError(f"this user has no home folder ({error}): XDG_CONFIG_HOME names one for credentials") from error


def default_folder() -> Path:
    """Return the folder of certificates of this user's clusters on this machine."""
    return user_folder() / "cluster"


def read_credentials(folder: Path) -> Credentials:
    """Read a folder of certificates. Raises ConfigError where they are missing or invalid, or others can read or change them."""
    try:
        _check_private(folder)
        ours = Credentials(*((folder / name).read_bytes() for name in (AUTHORITY, CERTIFICATE, KEY)))
    except OSError as error:
        allowed = f"{Path(str(error.filename)).name} cannot be read ({error.strerror}); neuro search certs {folder} makes it"
        raise ConfigError(SETTING, folder, allowed) from error
    _check_certificate(folder, ours)
    return ours


def _check_private(folder: Path) -> None:
    for path, forbidden in ((folder, 0o022), (folder / AUTHORITY, 0o022), (folder / CERTIFICATE, 0o022), (folder / KEY, 0o077)):
        status = path.stat()
        if status.st_uid not in (os.geteuid(), 0):
            raise ConfigError(SETTING, folder, f"{path.name} belongs to another user (uid {status.st_uid})")
        if status.st_mode & forbidden:
            can, mode = ("read", 600) if path.name == KEY else ("change", 700 if path is folder else 644)
            how = f"mode {stat.S_IMODE(status.st_mode):o}"
            raise ConfigError(SETTING, folder, f"others can {can} {path.name} ({how}): chmod {mode} {path}")


def _check_certificate(folder: Path, ours: Credentials) -> None:
    """Raise ConfigError for a certificate out of date, or files that do not belong together: no other end would say that."""
    try:
        node, authority = (x509.load_pem_x509_certificate(text) for text in (ours.certificate, ours.authority))
        key = serialization.load_pem_private_key(ours.key, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(SETTING, folder, f"{AUTHORITY}, {CERTIFICATE} and {KEY} must be PEM files ({error})") from error
    now = datetime.datetime.now(datetime.UTC)
    for name, one in ((CERTIFICATE, node), (AUTHORITY, authority)):
        if now > one.not_valid_after_utc:
            raise ConfigError(SETTING, folder, f"{name} has expired on {one.not_valid_after_utc:%Y-%m-%d}; {_renewal(folder)}")
        if now < one.not_valid_before_utc:
            raise ConfigError(
                SETTING, folder, f"{name} is valid from {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: is the clock right?"
            )
    if key.public_key() != node.public_key():
        raise ConfigError(SETTING, folder, f"{KEY} is not the key of {CERTIFICATE}")
    try:
        node.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError) as error:
        raise ConfigError(SETTING, folder, f"{CERTIFICATE} is not by the authority of {AUTHORITY}") from error


def _renewal(folder: Path) -> str:
    if folder == default_folder():
        return "remove that folder: it is made again"
    return "neuro search certs FOLDER makes new ones in another folder, or in this one without those files"
