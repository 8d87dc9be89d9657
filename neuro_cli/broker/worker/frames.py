"""Messages on the pipes between a worker and its children: four bytes of length, then the message."""

import struct
from typing import BinaryIO

LENGTH = struct.Struct(">I")


def framed(text: bytes) -> bytes:
    return LENGTH.pack(len(text)) + text


def read_frame(file: BinaryIO) -> bytes | None:
    """The next message; None at the end of the stream."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    text = file.read(length)
    return text if len(text) == length else None
