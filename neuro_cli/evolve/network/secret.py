"""Secret of a cluster, which authenticates its peers. It is read from a file or the environment, and never shown."""

import logging
import os
import secrets
import stat
from pathlib import Path

from neuro_cli.core.errors import ConfigError, UserError

log = logging.getLogger(__name__)

VARIABLE = "NEURO_CLUSTER_SECRET"
KEY = "cluster.secret_file"
FILE = "secret"  # name of the file in a run folder
SHORTEST, LONGEST = 16, 4096  # characters of a secret; bytes of its file


def new_secret() -> str:
    """Draw a secret of 128 random bits."""
    return secrets.token_urlsafe(16)


def given_secret(file: str | None) -> str | None:
    """Read the secret from ``file`` (``cluster.secret_file``) or the environment; None without either. Raises UserError."""
    source, secret = (VARIABLE, os.environ.get(VARIABLE)) if file is None else (KEY, _content(str(file)))
    if secret is not None and len(secret) < SHORTEST:
        raise UserError(f"{source}: the secret has {len(secret)} characters, at least {SHORTEST} are needed")
    if secret is not None and len(secret) > LONGEST:
        raise UserError(f"{source}: the secret has {len(secret)} characters, at most {LONGEST} are allowed")
    return secret


def _content(file: str) -> str:
    """Read the text of a small regular file. Raises ConfigError."""
    try:
        status = os.stat(file)
        if not stat.S_ISREG(status.st_mode):  # a pipe without a writer would block us
            raise ConfigError(KEY, file, "must be a regular file")
        if status.st_size > LONGEST:
            raise ConfigError(KEY, file, f"has more than {LONGEST} bytes: no secret")
        text = Path(file).read_text().strip()
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(KEY, file, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if status.st_mode & 0o077:
        log.warning("%s=%s: others on this machine may read it: chmod 600 %s", KEY, file, file)
    return text


def keep_secret(run: Path, secret: str) -> Path:
    """Write the secret into the run folder, readable by its owner alone. Returns the file."""
    path = run / FILE
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")
    return path
