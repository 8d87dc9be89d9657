"""Messages of elections, each field checked for its type and its range before use."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from neuro_cli.election.fields import Field, misfit, octets, shown, text, whole

END = 2**62  # bound of terms, indices and positions
TERMS_AHEAD = 2**20  # a term that far beyond ours does not belong to this cluster: terms grow by one per election
MOST_MEMBERS, LONGEST_NAME, LONGEST_HEAD, LONGEST_CONTENT = 4096, 300, 64, 32 * 2**20


class InvalidMessageError(ValueError):
    """Message that no peer of this version sends."""


def _are_members(value: Any) -> bool:
    return (
        type(value) is list and 0 < len(value) <= MOST_MEMBERS and all(map(NAME.holds, value))
        and all(first < second for first, second in pairwise(value))
    )  # fmt: skip


NUMBER, HEAD, CONTENT = whole(0, END - 1), octets(0, LONGEST_HEAD), octets(0, LONGEST_CONTENT)
NAME = Field(lambda value: bool(value) and text(LONGEST_NAME).holds(value), f"a name of at most {LONGEST_NAME} characters")
MEMBERS = Field(_are_members, "names of peers, sorted and all different")


def checked(message: Mapping[str, Any], kinds: Mapping[str, Mapping[str, Field]], term: int) -> dict[str, Any]:
    """Check the fields and ``type`` of a message to a peer in ``term``, and return them; ``kinds``: the fields of each type.

    Raises InvalidMessageError.
    """
    kind = message.get("type")
    fields = kinds.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise InvalidMessageError(f"election message {shown(kind)!r}: unknown type")
    values = {name: value for name, value in message.items() if name != "type"}
    wrong = misfit(values, fields)
    if wrong:
        raise InvalidMessageError(f"election message {kind!r}: {wrong}")
    if values.get("term", 0) > term + TERMS_AHEAD:
        raise InvalidMessageError(f"election message {kind!r}: term={values['term']} is far beyond ours, {term}")
    return {"type": kind, **values}
