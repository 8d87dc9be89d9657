"""Messages as plain data (msgpack): numbers, text, bytes, lists, maps. Reading them runs no code."""

from typing import Any

import msgpack


def packed(value: Any) -> bytes:
    """Encode ``value`` as bytes. Raises TypeError for anything but plain data."""
    content: bytes = msgpack.packb(value, strict_types=True)
    return content


def unpacked(content: bytes) -> Any:
    """Decode bytes of :func:`packed`. Raises ValueError for other bytes."""
    try:
        return msgpack.unpackb(content, strict_map_key=False, ext_hook=_unknown)
    except ValueError:
        raise
    except Exception as error:  # msgpack has errors of its own for bytes that are too many or too few
        raise ValueError(f"not a message: {type(error).__name__}") from error


def _unknown(code: int, content: bytes) -> Any:
    raise ValueError(f"unknown extension {code}")
