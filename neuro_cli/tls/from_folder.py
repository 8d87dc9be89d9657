"""``neuro search certs FOLDER [NAME ...]``: a certificate authority of the user, and the certificate of a cluster's processes.

All processes of a cluster show the same certificate or others of the same authority, as servers and as clients alike.
"""

import datetime
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from neuro_cli.broker.credentials import AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY, default_folder
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.tls.certificates import certificate, named, private_text

log = logging.getLogger(__name__)

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
    """Return the folder of this user's certificates for this machine, and make it the first time. Raises ConfigError."""
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
