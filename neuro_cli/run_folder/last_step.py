"""What a lost rank must not take with it: every member's state after the last whole iteration, in files.

An ensemble's state is spread over the ranks, so when one of them is killed, the rest cannot write what it had. Each rank
therefore writes its members into the run folder after every iteration, and ``neuro resume`` makes a checkpoint of the last
iteration that all members have. A member has several slots that are written in turn: ranks are not further apart than the
slots, so the slots of all members have an iteration in common at any moment.

The files are handed to the operating system and not forced to the disk: they survive a process that is killed in any way, not
a machine that goes down. A sum over the content tells pages that never reached the disk.
"""

import logging
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

FOLDER = "last_step"
_HEADER = struct.Struct("<8sQQQd")  # mark, generation, bytes, sum of 64-bit words, seconds
_MARK = b"neuro-1\n"


class LastStep:
    """Writes the slots of some members. ``slots``: how many iterations of each are kept, at least 2."""

    def __init__(self, run: Path, slots: int) -> None:
        self._folder, self._slots = run / "checkpoints" / FOLDER, slots

    def clear(self) -> None:
        """Remove what an earlier session left. One rank calls this, before any writes."""
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._folder.mkdir(parents=True)
        except OSError as error:
            raise UserError(f"{self._folder}: cannot be made: {error.strerror}") from error

    def write(self, generation: int, seconds: float, contents: Mapping[int, bytes]) -> None:
        """Put the ``contents`` of members, by number, after ``generation`` iterations into their slots. Raises UserError."""
        for number, content in contents.items():
            path = self._folder / f"member-{number}.{generation % self._slots}"
            try:
                with path.open("r+b" if path.exists() else "wb") as file:
                    file.write(b"\0" * _HEADER.size)  # what is there is no state of anything until the new one is complete
                    file.flush()
                    file.write(content)
                    file.truncate()
                    file.flush()
                    file.seek(0)
                    file.write(_HEADER.pack(_MARK, generation, len(content), _sum(content), seconds))
            except OSError as error:
                raise UserError(
                    f"{path}: cannot be written: {error.strerror} (algo.keep_last_step=false does without)"
                ) from error


def left_behind(run: Path) -> bool:
    """Whether there are files of a run that has not ended well."""
    return (run / "checkpoints" / FOLDER).is_dir()


def in_common(run: Path, members: int) -> dict[int, float]:
    """The iterations of which every member has an intact slot, with the run's seconds up to them."""
    common: dict[int, float] | None = None
    for number in range(members):
        own = {generation: seconds for generation, seconds, _ in _slots(run, number)}
        common = own if common is None else {key: common[key] for key in common.keys() & own.keys()}
    return common or {}


def content_of(run: Path, number: int, generation: int) -> bytes:
    """What member ``number`` wrote after ``generation``, one of :func:`in_common`."""
    return next(content for found, _, content in _slots(run, number) if found == generation)


def remove(run: Path) -> None:
    """Remove the files of a run that has ended well."""
    shutil.rmtree(run / "checkpoints" / FOLDER, ignore_errors=True)


def _slots(run: Path, number: int) -> list[tuple[int, float, bytes]]:
    """(generation, seconds, content) of a member's intact slots."""
    found = []
    for path in (run / "checkpoints" / FOLDER).glob(f"member-{number}.*"):
        whole = path.read_bytes()
        if len(whole) < _HEADER.size:
            continue
        mark, generation, size, total, seconds = _HEADER.unpack_from(whole)
        content = whole[_HEADER.size :]
        if mark == _MARK and len(content) == size and _sum(content) == total:
            found.append((generation, seconds, content))
        elif mark == _MARK:
            log.warning("%s is damaged: it does not count", path)
    return found


def _sum(content: bytes) -> int:
    """Sum of the content's 64-bit words modulo 2**64; the last word is filled up with zeros."""
    words = len(content) // 8 * 8
    whole = np.frombuffer(content, np.uint64, words // 8).sum(dtype=np.uint64)
    return (int(whole) + int.from_bytes(content[words:], "little")) % 2**64
