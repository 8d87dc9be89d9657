"""Messages as plain data (msgpack): numbers, text, bytes, lists, tuples, maps. Nothing that is read here runs anything."""

from typing import Any, BinaryIO

import msgpack
from pysyncobj.node import Node

_TUPLE, _NODE = 1, 2


def packed(value: Any) -> bytes:
    """``value`` as bytes. Raises TypeError for what is not plain data."""
    content: bytes = msgpack.packb(value, strict_types=True, default=_extended)
    return content


def _extended(value: Any) -> Any:
    if isinstance(value, tuple):
        return msgpack.ExtType(_TUPLE, packed(list(value)))
    if isinstance(value, Node):
        return msgpack.ExtType(_NODE, value.id.encode())
    if isinstance(value, set):
        return sorted(value, key=str)
    raise TypeError(f"{type(value).__name__} is no plain data")


def unpacked(content: bytes) -> Any:
    """What :func:`packed` made bytes of. Raises ValueError for anything else."""
    try:
        return msgpack.unpackb(content, ext_hook=_restored, strict_map_key=False)
    except ValueError:
        raise
    except Exception as error:  # msgpack has errors of its own for bytes that are too many or too few
        raise ValueError(f"not a message: {type(error).__name__}") from error


def _restored(code: int, content: bytes) -> Any:
    if code == _TUPLE:
        return tuple(unpacked(content))
    if code == _NODE:
        return Node(content.decode())
    raise ValueError(f"unknown extension {code}")


class PlainPickle:
    """Has the names of the module ``pickle`` that pysyncobj uses, and writes plain data instead."""

    dumps = staticmethod(packed)
    loads = staticmethod(unpacked)

    @staticmethod
    def dump(value: Any, file: BinaryIO) -> None:
        file.write(packed(value))

    @staticmethod
    def load(file: BinaryIO) -> Any:
        return unpacked(file.read())

    @staticmethod
    def to_bytes(content: bytes) -> bytes:
        return content
