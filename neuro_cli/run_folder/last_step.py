"""Files with every member's state after the last complete iteration, so that a lost rank loses nothing.

An ensemble's state is spread over the ranks, so when one of them is killed, the others cannot write its part. Each rank
therefore writes its members into the run folder after every iteration, and ``neuro resume`` makes a checkpoint of the last
iteration that all members have. A member's slots are written in turn. Ranks are never more iterations apart than there are
slots, so all members have one iteration in common at any moment.

The files are written without fsync: they survive the kill of a process, but not the crash of a machine. A sum over the content
shows pages that never reached the disk.
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
    """Writer of this rank's members. ``slots``: iterations of each member that stay on file, at least 2."""

    def __init__(self, run: Path, slots: int) -> None:
        self._folder, self._slots = run / "checkpoints" / FOLDER, slots

    def clear(self) -> None:
        """Remove the files of an earlier session. One rank calls this before any rank writes."""
        shutil.rmtree(self._folder, ignore_errors=True)
        try:
            self._folder.mkdir(parents=True)
        except OSError as error:
            raise UserError(f"{self._folder}: cannot be made: {error.strerror}") from error

    def write(self, generation: int, seconds: float, contents: Mapping[int, bytes]) -> None:
        """Write the ``contents`` of members, by number, after ``generation`` iterations. Raises UserError."""
        for number, content in contents.items():
            path = self._folder / f"member-{number}.{generation % self._slots}"
            try:
                with path.open("r+b" if path.exists() else "wb") as file:
                    file.write(b"\0" * _HEADER.size)  # no mark until the content is complete: a torn slot is no state
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
    """Return whether the run left files, which it removes when it ends well."""
    return (run / "checkpoints" / FOLDER).is_dir()


def in_common(run: Path, members: int) -> dict[int, float]:
    """Return the iterations that every member has in an intact slot, with the run's seconds up to them."""
    common: dict[int, float] | None = None
    for number in range(members):
        intact = {generation: seconds for generation, seconds, _ in _slots(run, number)}
        common = intact if common is None else {key: common[key] for key in common.keys() & intact.keys()}
    return common or {}


def content_of(run: Path, number: int, generation: int) -> bytes:
    """Return the content of member ``number`` after ``generation``, one of :func:`in_common`."""
    return next(content for iteration, _, content in _slots(run, number) if iteration == generation)


def remove(run: Path) -> None:
    """Remove the files of the last step of a run that has ended well."""
    shutil.rmtree(run / "checkpoints" / FOLDER, ignore_errors=True)


def _slots(run: Path, number: int) -> list[tuple[int, float, bytes]]:
    """Return (generation, seconds, content) of a member's intact slots."""
    intact = []
    for path in (run / "checkpoints" / FOLDER).glob(f"member-{number}.*"):
        file = path.read_bytes()
        if len(file) < _HEADER.size:
            continue
        mark, generation, size, total, seconds = _HEADER.unpack_from(file)
        content = file[_HEADER.size :]
        if mark == _MARK and len(content) == size and _sum(content) == total:
            intact.append((generation, seconds, content))
        elif mark == _MARK:
            log.warning("%s is damaged: it does not count", path)
    return intact


def _sum(content: bytes) -> int:
    """Return the sum of the content's 64-bit words modulo 2**64; zeros fill up the last word."""
    words = len(content) // 8 * 8
    total = np.frombuffer(content, np.uint64, words // 8).sum(dtype=np.uint64)
    return (int(total) + int.from_bytes(content[words:], "little")) % 2**64
