"""Messages of Raft: their fields, and entries of the log as plain data."""

from typing import Any

from neuro_cli.election.fields import FLAG, Field
from neuro_cli.election.messages import CONTENT, HEAD, MEMBERS, NAME, NUMBER
from neuro_cli.election.raft_log import Entry


def plain(entry: Entry) -> list[Any]:
    """Return the entry as a list, for the wire."""
    return [entry.term, list(entry.content) if isinstance(entry.content, tuple) else entry.content]


def entry_of(value: list[Any]) -> Entry:
    """Return the entry of a checked :func:`plain` list."""
    term, content = value
    return Entry(term, tuple(content) if isinstance(content, list) else content)


def _is_entry(value: Any) -> bool:
    if type(value) is not list or len(value) != 2 or not NUMBER.holds(value[0]):
        return False
    return value[1] is None or CONTENT.holds(value[1]) or MEMBERS.holds(value[1])


ENTRIES = Field(lambda value: type(value) is list and all(map(_is_entry, value)), "a list of entries, a term and a content each")

FIELDS: dict[str, dict[str, Field]] = {
    "ask": {"term": NUMBER, "last": NUMBER, "last_term": NUMBER, "pre": FLAG},
    "vote": {"term": NUMBER, "pre": FLAG, "granted": FLAG},
    "append": {"term": NUMBER, "previous": NUMBER, "previous_term": NUMBER, "commit": NUMBER, "entries": ENTRIES},
    "snapshot": {
        "term": NUMBER, "index": NUMBER, "index_term": NUMBER, "members": MEMBERS, "position": NUMBER, "head": HEAD,
    },
    "appended": {"term": NUMBER, "matches": FLAG, "index": NUMBER},
    "removed": {"term": NUMBER, "leader": NAME},
}  # fmt: skip
