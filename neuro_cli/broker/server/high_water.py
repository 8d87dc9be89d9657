"""Number of the last change that a database has taken, in a small file beside it: by that a gap is known.

SQLite leaves out a write-ahead log from its first damaged place on, without a word.
"""

import os
import struct
import zlib
from pathlib import Path

_FORM = struct.Struct("<8sQ")
_MAGIC = b"neuro-hw"


class HighWater:
    """Of the file ``path``, made if need be. ``force``: each number is forced to the disk. Raises OSError.

    ``mark``: the number that was there; None: there was no file, or it cannot be trusted, as ``wrong`` says.
    """

    def __init__(self, path: Path, force: bool) -> None:
        self._force = force
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        text = os.pread(self._file, 64, 0)
        self.mark: int | None = None
        self.wrong = "" if text else "it is not there"
        if text:
            whole = len(text) == _FORM.size + 4 and text.startswith(_MAGIC)
            if whole and zlib.crc32(text[: _FORM.size]) == int.from_bytes(text[_FORM.size :], "little"):
                self.mark = _FORM.unpack(text[: _FORM.size])[1]
            else:
                self.wrong = "it is damaged"

    def write(self, number: int) -> None:
        """One write of 20 bytes in place, which the end of the process cannot cut. Raises OSError."""
        text = _FORM.pack(_MAGIC, number)
        os.pwrite(self._file, text + zlib.crc32(text).to_bytes(4, "little"), 0)
        if self._force:
            os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)
