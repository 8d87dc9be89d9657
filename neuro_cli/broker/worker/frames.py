"""Messages on the pipes between a task process and its owner: a head in JSON and a payload of bytes, both of bounded length.

    length of the head (4 bytes, big-endian), length of the payload (4 bytes), head, payload

JSON and not protobuf, so that a task's process starts without gRPC's packages. The payload is apart because it is the
submitter's, passed on as it is.
"""

import asyncio
import json
import struct
from typing import Any, BinaryIO

LENGTHS = struct.Struct(">II")
HEAD_BYTES = 2**17

Frame = tuple[dict[str, Any], bytes]


class FrameError(ValueError):
    """Bytes that are not a message: too long, or with a head that is no JSON object."""


def framed(head: dict[str, Any], payload: bytes) -> bytes:
    """Pack a message into bytes."""
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
