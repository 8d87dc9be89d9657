"""File ``ledger.bin`` of a peer's run folder: committed iterations are appended, and an end torn by a kill is cut off.

Its header has the number of iterations on disk at its last write; if fewer follow, something else than a kill cut the file.
Records follow. A record's frame is its length, the CRC-32 of the record, and the CRC-32 of these two. So a wrong length is
damage, and only an incomplete last record was torn by a kill.
"""

import errno
import logging
import os
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import sync_file
from neuro_cli.evolve.ledger.ledger import Ledger, Offered
from neuro_cli.run_folder.checkpoint import write_atomically

log = logging.getLogger(__name__)

NAME = "ledger.bin"
_MAGIC = b"neuro ledger 2\n\0"
_HEADER = struct.Struct("<QQ32s")  # iteration of the first record, iterations on disk, hash before the first record
_CRC = struct.Struct("<I")
_FRAME = struct.Struct("<II")  # length and CRC-32 of a record
HEADER = len(_MAGIC) + _HEADER.size + _CRC.size  # bytes; less than a sector, so that a kill cannot cut a write of the header
_ATTEMPTS = 3  # attempts to read a header that is being written


class LedgerFile:
    """File to which the records of a ``ledger`` are appended."""

    def __init__(self, run: Path, ledger: Ledger) -> None:
        self._path = run / NAME
        self._error: OSError | None = None
        self._file = self._written(ledger)

    def rewrite(self, ledger: Ledger) -> None:
        """Replace the file by the ledger's records (after it was compacted, or replaced). On OSError the old file stays."""
        new = self._written(ledger)
        os.close(self._file)
        self._file = new

    def _written(self, ledger: Ledger) -> int:
        """Put a new file in place; return its descriptor, at its end."""
        first = ledger.head_at(ledger.base)
        assert first is not None
        content = ledger_bytes(ledger)
        write_atomically(self._path, content)
        self._base, self._first, self._next, self._size = ledger.base, first, ledger.next, len(content)
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        os.lseek(file, 0, os.SEEK_END)
        return file

    def append(self, record: bytes) -> None:
        """Append a record. After an OSError the file has the complete records before it, and takes no more: a gap is damage."""
        if self._error is not None:
            raise self._error
        frame = _framed(record)
        try:
            if os.write(self._file, frame) != len(frame):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._error = error
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._next, self._size = self._next + 1, self._size + len(frame)

    def marker(self) -> Callable[[], None]:
        """Return a function, for one call on any thread: it flushes the file, then writes the iterations to its header."""
        handle, header = os.dup(self._file), self._header()

        def mark() -> None:
            try:
                os.fdatasync(handle)
                os.pwrite(handle, header, 0)
            except OSError as error:
                log.warning("%s: not brought to the disk: %s", self._path, error.strerror)
            finally:
                os.close(handle)

        return mark

    def close(self) -> None:
        self.marker()()
        os.close(self._file)

    def _header(self) -> bytes:
        return _header(self._base, self._next, self._first)


def ledger_bytes(ledger: Ledger) -> bytes:
    """Return the content of a file with all records of ``ledger``."""
    first = ledger.head_at(ledger.base)
    assert first is not None
    return _header(ledger.base, ledger.next, first) + b"".join(map(_framed, ledger.records))


def _header(base: int, written: int, first: bytes) -> bytes:
    content = _MAGIC + _HEADER.pack(base, written, first)
    return content + _CRC.pack(zlib.crc32(content))


def _framed(record: bytes) -> bytes:
    frame = _FRAME.pack(len(record), zlib.crc32(record))
    return frame + _CRC.pack(zlib.crc32(frame)) + record


def sync_ledger(run: Path) -> None:
    """Write all records that were appended in a run folder to disk. Raises UserError."""
    try:
        sync_file(run / NAME)
    except OSError as error:
        raise UserError(f"{run}: the ledger cannot be written: {error.strerror}") from error


def read_ledger(run: Path) -> Ledger:
    """Read the ledger of a run folder, also while it is written. Raises UserError."""
    path = run / NAME
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return ledger_in(path.read_bytes(), path)
        except OSError as error:
            raise UserError(f"{run}: no peer's run folder of neuro evolve ({NAME}: {error.strerror})") from error
        except _HeaderError:
            if attempt == _ATTEMPTS:
                raise
            time.sleep(0.02 * attempt)  # a peer may be writing the header
    raise AssertionError


class _HeaderError(UserError):
    """Header that does not fit its checksum."""


def ledger_in(content: bytes, path: Path) -> Ledger:
    """Parse the ledger in the ``content`` of the file ``path``. Raises UserError."""
    if not content.startswith(_MAGIC) or len(content) < HEADER:
        raise UserError(f"{path}: not a ledger of this version of neuro")
    if zlib.crc32(content[: HEADER - _CRC.size]) != _CRC.unpack_from(content, HEADER - _CRC.size)[0]:
        raise _HeaderError(f"{path}: its header is damaged")
    return _records(path, content)


def _records(path: Path, content: bytes) -> Ledger:
    """Parse the ledger of a file with an intact header. Raises UserError."""
    base, written, first = _HEADER.unpack_from(content, len(_MAGIC))
    ledger, at, size = Ledger(first, base), HEADER, _FRAME.size + _CRC.size
    while at + size <= len(content):
        frame = content[at : at + _FRAME.size]
        if zlib.crc32(frame) != _CRC.unpack_from(content, at + _FRAME.size)[0]:
            raise UserError(f"{path}: damaged at iteration {ledger.next}")
        length, check = _FRAME.unpack(frame)
        record = content[at + size : at + size + length]
        if len(record) < length:
            break
        if zlib.crc32(record) != check or ledger.offer(record)[0] is not Offered.APPLIED:
            raise UserError(f"{path}: damaged at iteration {ledger.next}")
        at += size + length
    if ledger.next < written:
        missing = written - ledger.next
        raise UserError(f"{path}: cut short: it had {written} iterations on disk, the last {missing} of them are missing")
    if at < len(content):
        log.warning(
            "%s: its last %d bytes were torn off by a kill: %d iterations are complete", path, len(content) - at, ledger.next
        )
    return ledger
