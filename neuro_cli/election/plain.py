"""Messages as plain data (msgpack): numbers, text, bytes, lists, maps. Nothing that is read here runs anything."""

from typing import Any

import msgpack


def packed(value: Any) -> bytes:
    """``value`` as bytes. Raises TypeError for what is not plain data."""
    content: bytes = msgpack.packb(value, strict_types=True)
    return content


def unpacked(content: bytes) -> Any:
    """What :func:`packed` made bytes of. Raises ValueError for anything else."""
    try:
        return msgpack.unpackb(content, strict_map_key=False, ext_hook=_unknown)
    except ValueError:
        raise
    except Exception as error:  # msgpack has errors of its own for bytes that are too many or too few
        raise ValueError(f"not a message: {type(error).__name__}") from error


def _unknown(code: int, content: bytes) -> Any:
    raise ValueError(f"unknown extension {code}")
