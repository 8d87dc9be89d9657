"""``ledger.bin`` of a peer's run folder: its committed iterations, written as they come, cut where a kill tore them."""

import json
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.ledger import Ledger, Outcome
from neuro_cli.runner.checkpoint import write_atomically

NAME = "ledger.bin"
_FRAME = struct.Struct("<II")  # length and CRC-32 of a record


class LedgerFile:
    """Appends records to the file of a ``ledger``."""

    def __init__(self, run: Path, ledger: Ledger) -> None:
        self._path = run / NAME
        self.rewrite(ledger)

    def rewrite(self, ledger: Ledger) -> None:
        """Replace the file by what the ledger holds (after it was compacted, or replaced)."""
        first = ledger.head_at(ledger.base)
        assert first is not None
        head = json.dumps({"format": 1, "base": ledger.base, "head": first.hex()}).encode() + b"\n"
        write_atomically(self._path, head + b"".join(_framed(record) for record in ledger.records))
        self._file: BinaryIO = self._path.open("ab", buffering=0)

    def append(self, record: bytes) -> None:
        self._file.write(_framed(record))

    def close(self) -> None:
        self._file.close()


def _framed(record: bytes) -> bytes:
    return _FRAME.pack(len(record), zlib.crc32(record)) + record


def read_ledger(run: Path) -> Ledger:
    """The ledger of a run folder, also of one that is being written. Raises UserError."""
    path = run / NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{run}: no peer's run folder of neuro evolve ({NAME}: {error.strerror})") from error
    first, newline, rest = content.partition(b"\n")
    try:
        head = json.loads(first)
        if not newline or head["format"] != 1:
            raise ValueError("format")
        ledger = Ledger(bytes.fromhex(head["head"]), int(head["base"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a ledger of this version of neuro") from error
    at = 0
    while at + _FRAME.size <= len(rest):
        length, check = _FRAME.unpack_from(rest, at)
        record = rest[at + _FRAME.size : at + _FRAME.size + length]
        if len(record) < length:
            break  # torn by a kill
        if zlib.crc32(record) != check or ledger.offer(record)[0] is not Outcome.APPLIED:
            raise UserError(f"{path}: damaged at iteration {ledger.next}")
        at += _FRAME.size + length
    return ledger
