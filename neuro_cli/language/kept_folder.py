"""Folders in the user's cache with the content of GGUF files, converted once to a form that can be mapped from disk."""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from neuro_cli.core.files import file_sha256, name_complete

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the folder of neuro in the user's cache: ``$XDG_CACHE_HOME/neuro``, by default ``~/.cache/neuro``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuro"


def kept_folder(source: Path, versions: str, kind: str, make: Callable[[Path], None]) -> Path | None:
    """Return the folder of a ``kind`` that ``make`` filled from the file ``source``; None if the cache cannot be written.

    The content of ``source`` and ``versions`` give its name. One process fills it while others wait.
    """
    state = source.stat()
    content = _sha256(source.resolve(), state.st_size, state.st_mtime_ns)
    name = hashlib.sha256(f"{content} {versions}".encode()).hexdigest()[:24]
    folder = cache_folder() / "gguf" / f"{name}-{kind}"
    try:
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with folder.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not folder.is_dir():  # another process may have filled it
                    for left in folder.parent.glob(f"{folder.name}.*/"):  # left by a killed process
                        shutil.rmtree(left, ignore_errors=True)
                    _make(folder, make)
                    log.info("model: %s of %s is in %s from now on", kind, source.name, folder)
        return folder
    except OSError as error:
        log.warning("model: %s is converted by each process, since the cache cannot be written: %s", source.name, error)
        return None


@lru_cache  # config, tokenizer and weights of one file are asked for in turn
def _sha256(source: Path, size: int, modified: int) -> str:
    """Return the SHA-256 of a file that has this ``size`` and time of change."""
    return file_sha256(source)


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Fill a new folder, and name it when it is complete."""
    new = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        make(new)
        name_complete(new, folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
