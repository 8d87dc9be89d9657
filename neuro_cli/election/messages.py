"""Fields of the messages of elections, each checked for its type and its range before use."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

END = 2**62  # bound of terms, indices and positions
TERMS_AHEAD = 2**20  # a term that far beyond ours does not belong to this cluster: terms grow by one per election
MOST_MEMBERS, LONGEST_NAME, LONGEST_HEAD, LONGEST_CONTENT = 4096, 300, 64, 32 * 2**20

Check = Callable[[Any], Any]  # gives the value back, or raises InvalidMessageError


class InvalidMessageError(ValueError):
    """Message that no peer of this version sends."""


def checked(message: dict[str, Any], kinds: dict[str, dict[str, Check]], term: int) -> dict[str, Any]:
    """Check the fields and ``type`` of a message to a peer in ``term``, and return them; ``kinds``: the fields of each type.

    Raises InvalidMessageError.
    """
    kind = message.get("type")
    fields = kinds.get(kind) if isinstance(kind, str) else None
    if fields is None or message.keys() != {"type", *fields}:
        raise InvalidMessageError(f"election message {str(kind)[:40]!r}: unknown type, or other fields than that has")
    try:
        values = {name: check(message[name]) for name, check in fields.items()}
    except InvalidMessageError as error:
        raise InvalidMessageError(f"election message {kind!r}: {error}") from error
    if values.get("term", 0) > term + TERMS_AHEAD:
        raise InvalidMessageError(f"election message {kind!r}: term={values['term']} is far beyond ours, {term}")
    return {"type": kind, **values}


def number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < END:
        raise InvalidMessageError(f"{str(value)[:60]!r} is not an integer in [0, 2**62)")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidMessageError(f"{str(value)[:60]!r} is not a truth value")
    return value


def head(value: Any) -> bytes:
    return _bytes(value, LONGEST_HEAD)


def content(value: Any) -> bytes:
    return _bytes(value, LONGEST_CONTENT)


def _bytes(value: Any, most: int) -> bytes:
    if not isinstance(value, bytes) or len(value) > most:
        raise InvalidMessageError(f"{str(value)[:60]!r} is not at most {most} bytes")
    return value


def name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME or not value.isprintable():
        raise InvalidMessageError(f"a name has at most {LONGEST_NAME} characters, all of them printable")
    return value


def members(value: Any) -> tuple[str, ...]:
    """Check names of peers, which are sorted and all different."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MEMBERS:
        raise InvalidMessageError("members are not a list of names")
    names = [name(item) for item in value]
    if any(first >= second for first, second in pairwise(names)):
        raise InvalidMessageError("members are not sorted, or one is listed twice")
    return tuple(names)
