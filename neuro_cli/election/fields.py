"""Fields of messages between peers: each has a check of type and range, and its allowed values in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neuro_cli.core import errors as core

SHOWN = 60  # characters of a wrong value in a log line


@dataclass(frozen=True)
class Field:
    """Field of a message. ``allowed``: its values in words."""

    holds: Callable[[Any], bool]
    allowed: str


FLAG = Field(lambda value: type(value) is bool, "true or false")


def whole(low: int, high: int) -> Field:
    return Field(lambda value: type(value) is int and low <= value <= high, f"an integer from {low} to {high}")


def octets(low: int, high: int) -> Field:
    return Field(lambda value: type(value) is bytes and low <= len(value) <= high, f"{low} to {high} bytes")


def text(most: int) -> Field:
    def holds(value: Any) -> bool:
        return type(value) is str and len(value) <= most and (value.isprintable() or not value)

    return Field(holds, f"at most {most} printable characters")


def several(of: Field, low: int, high: int) -> Field:
    def holds(value: Any) -> bool:
        return type(value) is list and low <= len(value) <= high and all(map(of.holds, value))

    return Field(holds, f"{low} to {high} times {of.allowed}")


def or_none(of: Field) -> Field:
    return Field(lambda value: value is None or of.holds(value), f"nothing, or {of.allowed}")


def misfit(message: Mapping[Any, Any], fields: Mapping[str, Field]) -> str:
    """Return what is wrong with ``message``, which must have exactly ``fields``; "" where it fits."""
    if message.keys() != fields.keys():
        return f"the fields {shown(sorted(map(str, message)))} are not those of its kind"
    wrong = next((name for name, field in fields.items() if not field.holds(message[name])), None)
    return "" if wrong is None else f"{wrong}={shown(message[wrong])} is not {fields[wrong].allowed}"


def shown(value: Any) -> str:
    """Format another peer's value for our log: short, and printable."""
    if isinstance(value, bytes | bytearray | list | tuple | dict) and len(value) > SHOWN:
        return f"{len(value)} {'bytes' if isinstance(value, bytes | bytearray) else 'items'}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**64:
        return "a long integer"
    return printable(value if isinstance(value, str) else repr(value), SHOWN)


def printable(text: str, most: int) -> str:
    """Clean another peer's text for our log: no control characters, and at most ``most`` characters."""
    clean = core.printable(text[: most + 1])
    return clean if len(clean) <= most else f"{clean[:most]}..."
