"""Messages between peers: every kind, its fields, and their allowed values.

A message has exactly the fields listed here; any other one ends a connection. Elections check their own messages
(``election``), and :mod:`neuro_cli.evolve.ledger.record` checks committed records.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neuro_cli.election.fields import FLAG, Field, misfit, octets, or_none, several, shown, text, whole
from neuro_cli.evolve.config import MOST_LOCAL
from neuro_cli.evolve.ledger.record import MEMBERS, MOST_ITERATIONS

# names of peers, ``identifier@host:port``: the identifier is the hash of a key that only the peer has
HOST = r"\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
NAME = re.compile(rf"[0-9a-f]{{32}}@(?:{HOST}):[0-9]{{1,5}}")


def address_of(peer: str) -> str:
    """Return the address HOST:PORT of a name, or of an address."""
    return peer.rpartition("@")[2]


def is_name(text: object) -> bool:
    return isinstance(text, str) and NAME.fullmatch(text) is not None


MOST_MEMBERS = 4096  # peers of a cluster
HEAD, DIGEST = 32, 64  # bytes of a SHA-256, its hex digits
PART = 2**20  # bytes of a snapshot in a message


class MalformedError(ConnectionError):
    """Message that no peer of this version sends."""


def _is_plain(value: Any, depth: int = 4) -> bool:
    """Return whether ``value`` can be part of a config, without bytes and not nested deeper than ``depth``."""
    if isinstance(value, dict):
        return depth > 0 and all(type(key) is str and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return value is None or type(value) in (bool, int, float, str)


def _names_peers(message: dict[Any, Any]) -> bool:
    """Return whether all texts of an election's message but its type are names of peers, down to members in Raft's log."""

    def holds(value: Any, depth: int) -> bool:
        if isinstance(value, list | tuple):
            return depth > 0 and all(holds(item, depth - 1) for item in value)
        return not isinstance(value, str) or is_name(value)

    return all(key == "type" or holds(value, 3) for key, value in message.items())


_NAME = Field(is_name, "a name (identifier@host:port)")
_ELECTION = Field(lambda value: type(value) is dict and _names_peers(value), "a message of the election, its texts names")
_ITERATION = whole(0, MOST_ITERATIONS)  # index or number of iterations
_TERM = whole(0, 2**63 - 1)
_CLUSTER = text(64)
_FLOATS = Field(lambda value: type(value) is bytes and 0 < len(value) <= 2**26 and len(value) % 4 == 0, "float32 numbers")
_DOUBLES = Field(lambda value: type(value) is bytes and 0 < len(value) <= 2**26 and len(value) % 8 == 0, "float64 numbers")
_CONFIG = Field(lambda value: type(value) is dict and _is_plain(value), "the keys and values of a config")
_HELLO = {"format": text(64), "cluster": _CLUSTER}

_REPORT = {
    "i": whole(0, MOST_ITERATIONS - 1), "m": whole(0, MEMBERS - 1), "f": _DOUBLES, "n": whole(1, MEMBERS), "a": _FLOATS,
}  # fmt: skip

FIELDS: Mapping[str, Mapping[str, Field]] = {
    # a connection begins with one of these
    "hello for link": _HELLO | {"peer": _NAME},
    "hello for enter": _HELLO | {"peer": _NAME, "identity": _CONFIG},
    "hello for leave": _HELLO | {"peer": _NAME, "identity": _CONFIG},
    "hello for fetch": _HELLO | {"peer": _NAME, "identity": _CONFIG, "next": _ITERATION, "head": octets(HEAD, HEAD)},
    "hello for leader": _HELLO | {"peer": _NAME},
    # answers to these
    "refused": {"refused": text(2000)},
    "ok": {},
    "cluster": {"cluster": _CLUSTER},
    "leader": {"leader": or_none(_NAME)},
    "word": {"peer": _NAME, "m": _ELECTION},
    "members": {"members": several(_NAME, 1, MOST_MEMBERS), "term": _TERM},
    # messages after the answer
    "entered": {"entered": FLAG},
    "left": {"left": FLAG},
    "none": {},
    "start": {"head": octets(HEAD, HEAD)},
    "snapshot": {
        "next": _ITERATION, "head": octets(HEAD, HEAD), "size": whole(1, 2**48),
        "sha256": Field(lambda value: type(value) is str and len(value) == DIGEST, f"{DIGEST} characters"),
    },
    "part": {"data": octets(1, PART)},
    "records": {"records": several(octets(1, 2**26), 0, 500)},
    # messages of a link
    "ping": {"next": _ITERATION, "at": whole(-1, MOST_ITERATIONS)},
    "report": _REPORT,
    "sequence": _REPORT | {"p": several(whole(0, MEMBERS - 1), 1, MOST_LOCAL - 1)},  # report after several local iterations
    "election": {"m": _ELECTION},
}  # fmt: skip
PURPOSES = tuple(kind for kind in FIELDS if kind.startswith("hello for "))
_MARKS = ("k",), ("k", "for")  # keys that say the kind of a message, and of the first one of a connection
ON_A_LINK = ("ping", "report", "sequence", "election")


def checked(message: Any, *kinds: str) -> dict[str, Any]:
    """Check that ``message`` is one of ``kinds`` with exactly its fields, and return it. Raises MalformedError."""
    kind = kind_of(message)
    if kind not in kinds:
        raise MalformedError(f"{shown(kind)} where {' or '.join(kinds)} is expected")
    wrong = misfit({name: value for name, value in message.items() if name not in _MARKS[kind in PURPOSES]}, FIELDS[kind])
    if wrong:
        raise MalformedError(f"{kind}: {wrong}")
    assert isinstance(message, dict)
    return message


def kind_of(message: Any) -> str:
    """Return the kind of a message as a key of :data:`FIELDS`, which need not have it."""
    kind = message.get("k") if isinstance(message, dict) else None
    return f"hello for {shown(message.get('for'))}" if kind == "hello" else kind if isinstance(kind, str) else "no kind"


@dataclass(frozen=True)
class Limits:
    """Limits of one run's messages.

    ``tensors``: shape and dtype of each tensor of a snapshot; ``origin``: hash before the first record;
    ``first_member(peer, iteration)``: first of the peer's addresses; ``stride``: addresses from one local iteration to
    the next; ``pairs``: both members of a pair are reported together.
    """

    population: int
    columns: int
    origin: bytes
    tensors: Mapping[str, tuple[tuple[int, ...], str]]
    tensor_bytes: int
    first_member: Callable[[str, int], int]
    local_iterations: int = 1
    stride: int = 0
    pairs: bool = False

    def members(self, peer: str, iteration: int, local: int) -> range:
        """Return the members that a peer scores in a local iteration."""
        first = self.first_member(peer, iteration) + local * self.stride
        return range(first, first + self.population)

    @property
    def message(self) -> int:
        """Bytes of the longest message: a record of 256 peers, or a few MiB of records."""
        return min(2**26, 2**22 + 4 * 256 * self.population)

    @property
    def snapshot(self) -> int:
        """Bytes of a snapshot in messages: the tensors, and the names and shapes before them."""
        return self.tensor_bytes + 2**16
