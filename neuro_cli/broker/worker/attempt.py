"""Attempts at tasks, and the messages on the pipes between a task process and its owner.

A message is a head in JSON and a payload of bytes, both of bounded length:

    length of the head (4 bytes, big-endian), length of the payload (4 bytes), head, payload

JSON and not protobuf, so that a task's process starts without gRPC's packages. The payload is apart because it is the
submitter's, passed on as it is.
"""

import asyncio
import json
import math
import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO

LENGTHS = struct.Struct(">II")
HEAD_BYTES = 2**17
ERROR_BYTES = 16384  # most characters of an error's text, the end of a longer one

Frame = tuple[dict[str, Any], bytes]


class FrameError(ValueError):
    """Bytes that are not a message: too long, or with a head that is no JSON object."""


def framed(head: dict[str, Any], payload: bytes) -> bytes:
    """Pack a message about an attempt into bytes."""
    text = json.dumps(head).encode()
    return LENGTHS.pack(len(text), len(payload)) + text + payload


def read_frame(file: BinaryIO) -> Frame | None:
    """Wait for the owner's next message; None at the end of the stream."""
    lengths = file.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, payload = LENGTHS.unpack(lengths)
    text = file.read(head + payload)
    return (_head(text[:head]), text[head:]) if len(text) == head + payload else None


async def next_frame(reader: asyncio.StreamReader, payload_limit: int) -> Frame:
    """Wait for the next message of a task process, where a task may write what it likes.

    Raises FrameError before anything longer than allowed is read, IncompleteReadError at the end of the stream.
    """
    head, payload = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
    if head > HEAD_BYTES or payload > payload_limit:
        raise FrameError(f"a message of {head} and {payload} bytes, {HEAD_BYTES} and {payload_limit} are allowed")
    return _head(await reader.readexactly(head)), await reader.readexactly(payload)


def _head(text: bytes) -> dict[str, Any]:
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError("a head that is no JSON") from error
    if not isinstance(head, dict):
        raise FrameError("a head that is no JSON object")
    return head


class Ending(StrEnum):
    """Names of the contract's `Outcome` (`broker.proto`), as far as a task process can give them."""

    DONE = "DONE"
    RAISED = "RAISED"
    CRASHED = "CRASHED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN_KIND = "UNKNOWN_KIND"
    TOO_LARGE = "TOO_LARGE"


# another attempt would end the same way; other endings are worth one
SAME_AGAIN = (Ending.RAISED, Ending.UNKNOWN_KIND, Ending.TOO_LARGE, Ending.OUT_OF_MEMORY)


@dataclass(frozen=True)
class Attempt:
    """Attempt at a task; ``payload``: JSON, with DONE, else ``error``: one line, or a traceback; ``seconds``: its duration."""

    ending: Ending
    payload: bytes = b""
    error: str = ""
    seconds: float = 0.0

    def frame(self) -> Frame:
        """Return head and payload of the message that carries it."""
        return {"ending": self.ending, "error": self.error, "seconds": self.seconds}, self.payload


def failed(ending: Ending, error: str, seconds: float) -> Attempt:
    """Return an attempt without a payload. A long ``error`` loses its beginning, and characters that UTF-8 lacks."""
    text = error.encode(errors="replace")[-ERROR_BYTES:].decode(errors="ignore")
    return Attempt(ending, error=text, seconds=seconds)


def attempt_of(frame: Frame) -> Attempt:
    """Read the attempt from a message of :meth:`Attempt.frame`. Raises FrameError for any other message."""
    head, payload = frame
    ending, error, seconds = head.get("ending"), head.get("error"), head.get("seconds")
    if ending not in tuple(Ending) or not isinstance(error, str):
        raise FrameError("a message without an ending and its error")
    if not isinstance(seconds, float) or not math.isfinite(seconds):
        raise FrameError("a message without seconds")
    return Attempt(Ending.DONE, payload, "", seconds) if ending == Ending.DONE else failed(Ending(ending), error, seconds)
