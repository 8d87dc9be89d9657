"""Names of peers, ``identifier@host:port``. The identifier is the hash of a key that only the peer has."""

import re

HOST = r"\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}"
NAME = re.compile(rf"[0-9a-f]{{32}}@(?:{HOST}):[0-9]{{1,5}}")


def address_of(peer: str) -> str:
    """Return the address HOST:PORT of a name, or of an address."""
    return peer.rpartition("@")[2]


def is_name(text: object) -> bool:
    return isinstance(text, str) and NAME.fullmatch(text) is not None
