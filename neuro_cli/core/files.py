"""Files: ``conf/``, and those of a run folder, written so that a kill leaves the old or the new one, and through no link."""

import errno
import hashlib
import logging
import os
import re
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

# error numbers of file systems that cannot sync a folder: FUSE, CIFS and others
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
_warned: set[int] = set()  # file systems


def config_folder() -> Path:
    """Return the folder ``conf/``, inside the installed package or else of the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` with ``content``, on disk on return. On OSError the old file stays and no other is left."""

    def write(temporary: Path) -> None:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)

    replace_atomically(path, write)


def save_file(path: Path, content: str | bytes) -> None:
    """Write a file as :func:`write_atomically`. Raises UserError."""
    try:
        write_atomically(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def replace_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Replace ``path`` with the file that ``write`` makes under the name that it gets: as :func:`write_atomically`."""
    temporary = temporary_name(path)
    try:
        write(temporary)
        sync_file(temporary)
        os.replace(temporary, path)
    except BaseException:  # also a library's own error of a full disk, and Ctrl-C
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def temporary_name(path: Path) -> Path:
    """Return this process's temporary name for ``path``, and remove those of killed writers. Raises OSError.

    It contains the process id, since another process that writes ``path`` now would continue this one's file and rename it.
    """
    pattern = re.compile(re.escape(path.name) + r"\.(\d+)\.tmp(\.folder)?")
    for other in path.parent.iterdir() if path.parent.is_dir() else ():
        found = pattern.fullmatch(other.name)
        if found and (int(found[1]) == os.getpid() or not Path(f"/proc/{found[1]}").exists()):
            with suppress(FileNotFoundError):  # another process removes it too
                remove(other)
    return path.with_name(f"{path.name}.{os.getpid()}.tmp")


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that it has, where there is one. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def name_complete(new: Path, path: Path) -> None:
    """Give the complete file or folder ``new`` the name ``path``, once its content is on disk. Raises OSError."""
    for part in (new, *new.rglob("*")):
        if part.is_dir():
            sync_folder(part)
        else:
            sync_file(part)
    os.replace(new, path)
    sync_folder(path.parent)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read piece by piece. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_file(path: Path) -> None:
    """Write the content of a file to disk, whichever process wrote it. Raises OSError."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Write the names in ``folder`` to disk; a file system that cannot is one warning, since the files themselves are safe."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
        device = os.fstat(handle).st_dev
        if device not in _warned:
            _warned.add(device)
            text = "%s: its file system does not sync folders (%s): if the machine goes down, the last files may be lost"
            log.warning(text, folder, error.strerror)
    finally:
        os.close(handle)


class HeldFolder:
    """Folder ``path`` as it is now, however it is named later. Raises OSError where there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)  # no other gets its number
        weakref.finalize(self, os.close, self._handle)

    def refuse_other(self) -> None:
        """Raise UserError where it was moved or removed meanwhile, also when another folder has its name now."""
        try:
            same = os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except OSError:
            same = False
        if not same:
            raise UserError(
                f"{self.path}: it was moved or removed while its run was at work; the run can be resumed from its new place"
            )


def open_appending(path: Path) -> int:
    """Return a descriptor that appends to ``path``, which may be new. Raises UserError for a symbolic link, OSError."""
    refuse_link(path)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)


def refuse_link(path: Path) -> None:
    """Raise UserError when ``path`` is a symbolic link: what is written there would land elsewhere."""
    if path.is_symlink():
        raise UserError(f"{path}: it is a symbolic link, and nothing is written through one; put the file itself there")
