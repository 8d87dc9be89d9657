"""Messages of Raft: their fields, and entries of the log as plain data."""

from typing import Any

from neuro_cli.election.messages import Check, InvalidMessageError, content, flag, head, members, name, number
from neuro_cli.election.raft_log import Entry


def plain(entry: Entry) -> list[Any]:
    """Return the entry as a list, for the wire."""
    return [entry.term, list(entry.content) if isinstance(entry.content, tuple) else entry.content]


def entries(value: Any) -> list[Entry]:
    """Return the entries of :func:`plain` lists. Raises InvalidMessageError."""
    if not isinstance(value, list):
        raise InvalidMessageError("entries are not a list")
    return [_entry(item) for item in value]


def _entry(value: Any) -> Entry:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidMessageError("an entry is not a term and a content")
    term, what = value
    if isinstance(what, bytes):
        return Entry(number(term), content(what))
    return Entry(number(term), None if what is None else members(what))


FIELDS: dict[str, dict[str, Check]] = {
    "ask": {"term": number, "last": number, "last_term": number, "pre": flag},
    "vote": {"term": number, "pre": flag, "granted": flag},
    "append": {"term": number, "previous": number, "previous_term": number, "commit": number, "entries": entries},
    "snapshot": {
        "term": number, "index": number, "index_term": number, "members": members, "position": number, "head": head,
    },
    "appended": {"term": number, "matches": flag, "index": number},
    "stand": {"term": number},
    "removed": {"term": number, "leader": name},
}  # fmt: skip
