"""The folder of certificates of a cluster's processes, what they read of it, and whether others could have read or changed it."""

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
    """Folder of this user's keys and tokens."""
    try:
        return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "neuro"
    except RuntimeError as error:
        raise UserError(f"this user has no home folder ({error}): XDG_CONFIG_HOME names one for credentials") from error


def default_folder() -> Path:
    """Certificates of this user's clusters on this machine."""
    return user_folder() / "cluster"


def read_credentials(folder: Path) -> Credentials:
    """Raises ConfigError for a folder without them, one that others can read or change, and certificates that do not hold."""
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
        found = path.stat()
        if found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(SETTING, folder, f"{path.name} belongs to another user (uid {found.st_uid})")
        if found.st_mode & forbidden:
            can, mode = ("read", 600) if path.name == KEY else ("change", 700 if path is folder else 644)
            how = f"mode {stat.S_IMODE(found.st_mode):o}"
            raise ConfigError(SETTING, folder, f"others can {can} {path.name} ({how}): chmod {mode} {path}")


def _check_certificate(folder: Path, ours: Credentials) -> None:
    """Say what the other end would not: that a certificate is out of date, or that the three files do not belong together."""
    try:
        node, authority = (x509.load_pem_x509_certificate(text) for text in (ours.certificate, ours.authority))
        key = serialization.load_pem_private_key(ours.key, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(SETTING, folder, f"{AUTHORITY}, {CERTIFICATE} and {KEY} must be PEM files ({error})") from error
    now = datetime.datetime.now(datetime.UTC)
    for name, one in ((CERTIFICATE, node), (AUTHORITY, authority)):
        if now > one.not_valid_after_utc:
            raise ConfigError(SETTING, folder, f"{name} has expired on {one.not_valid_after_utc:%Y-%m-%d}; {_anew(folder)}")
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


def _anew(folder: Path) -> str:
    if folder == default_folder():
        return "remove that folder: it is made anew"
    return "neuro search certs FOLDER makes new ones in another folder, or in this one without those files"
