"""Folders in which wandb records the sessions of a run: the run's identifier, and the last generation that a kill left.

A session's file ``run-ID.wandb`` is a log of protobuf records in LevelDB's log format: a header of 7 bytes, then blocks of 32 KiB
with fragments, each after a checksum (4 bytes), a length (2) and a kind (1: complete, 2: first, 3: middle, 4: last). wandb writes
every 15 seconds, so a kill loses the rows since then.
"""

import re
import struct
from importlib import import_module
from pathlib import Path

_FOLDER = re.compile(r"(?:offline-)?run-\d+_\d+-(\w+)")
_BLOCK, _HEADER = 32768, struct.Struct("<IHB")
_MAGIC = b":W&B"


def sessions(folder: Path, pattern: str = "*") -> list[Path]:
    """Return the folders of sessions under ``folder``, the newest last."""
    found = [path for path in folder.glob(pattern) if _FOLDER.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: path.name.removeprefix("offline-"))


def previous_identifier(folder: Path) -> str | None:
    """Return the identifier at wandb of the newest session under ``folder``, None without a session."""
    newest = sessions(folder)
    return newest[-1].name.rsplit("-", 1)[1] if newest else None


def last_step(folder: Path) -> int:
    """Return the last step in the files of the sessions under ``folder``, 0 without any. Raises ValueError for another format."""
    record_of = import_module("wandb.proto.wandb_internal_pb2").Record.FromString

    for session in reversed(sessions(folder)):
        for path in session.glob("run-*.wandb"):
            for content in reversed(_records(path.read_bytes())):
                record = record_of(content)
                if record.WhichOneof("record_type") == "history":
                    return int(record.history.step.num)
    return 0


def _records(data: bytes) -> list[bytes]:
    """Return the complete records of a session's file. Raises ValueError for another format."""
    if data and not data.startswith(_MAGIC):
        raise ValueError("its file is not in the format of wandb 0.19 to 0.31")
    records, at, parts = [], 7, b""
    while at + 7 <= len(data):
        left = _BLOCK - at % _BLOCK
        _, length, kind = _HEADER.unpack_from(data, at) if left >= 7 else (0, 0, 0)
        if kind == 0:  # the rest of a block is empty
            at += left
            continue
        end = at + 7 + length
        if end > len(data):  # a kill cut it off
            break
        parts = data[at + 7 : end] if kind in (1, 2) else parts + data[at + 7 : end]
        if kind in (1, 4):
            records.append(parts)
        at = end
    return records
