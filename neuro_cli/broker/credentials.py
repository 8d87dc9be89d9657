"""Folder of certificates of a cluster's processes: they read it, once nobody else can have read or changed it."""

import datetime
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from neuro_cli.core.errors import ConfigError, UserError

AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "node.crt", "node.key"
SETTING = "security.certificates"


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
