"""Log of Raft: entries after a compacted prefix, the members of the cluster that they imply, and messages that carry entries."""

from typing import Any, NamedTuple

from neuro_cli.election.fields import FLAG, Field
from neuro_cli.election.messages import CONTENT, HEAD, MEMBERS, NAME, NUMBER, InvalidMessageError

Content = bytes | tuple[str, ...] | None


class Entry(NamedTuple):
    """Entry of Raft's log; ``content``: proposed bytes, the cluster's members from here on, or None for the first of a term."""

    term: int
    content: Content


class Log:
    """Entries ``base + 1`` to ``last``. Entry ``base`` and all before it are committed and dropped.

    Indices count from 1; base 0 is the log of a peer that has no entry yet. ``members``: of the newest entry that names them.
    """

    def __init__(self, base: int, base_term: int, members: tuple[str, ...]) -> None:
        self.reset(base, base_term, members)

    def reset(self, base: int, base_term: int, members: tuple[str, ...]) -> None:
        """Replace the entries of the log by a prefix up to ``base``."""
        self.base, self.base_term = base, base_term
        self._entries: list[Entry] = []
        self._memberships = [(base, members)]  # (index, members), ascending; the first holds at ``base``

    @property
    def last(self) -> int:
        return self.base + len(self._entries)

    @property
    def last_term(self) -> int:
        return self._entries[-1].term if self._entries else self.base_term

    @property
    def members(self) -> tuple[str, ...]:
        return self._memberships[-1][1]

    def memberships_since(self, index: int) -> list[tuple[str, ...]]:
        """Return the members at ``index``, then those of every later entry of the log that changes them."""
        if index >= self._memberships[-1][0]:  # the usual case, at every message
            return [self._memberships[-1][1]]
        later = [members for at, members in self._memberships if at > index]
        return [self.members_at(index), *later]

    def members_at(self, index: int) -> tuple[str, ...]:
        """Return the members by the log at ``index`` >= ``base``."""
        return next(members for at, members in reversed(self._memberships) if at <= index)

    def term_at(self, index: int) -> int | None:
        """Return the term of an entry; None where it was dropped or does not exist."""
        place = index - self.base
        if place == 0:
            return self.base_term
        return self._entries[place - 1].term if 0 < place <= len(self._entries) else None

    def __getitem__(self, index: int) -> Entry:
        assert self.base < index <= self.last
        return self._entries[index - self.base - 1]

    def after(self, index: int, size: int) -> list[Entry]:
        """Return the log's entries after ``index`` >= ``base``: the first, and as many more as fit into ``size`` bytes."""
        entries: list[Entry] = []
        for entry in self._entries[index - self.base :]:
            size -= len(entry.content) if isinstance(entry.content, bytes) else 64
            if entries and size < 0:
                break
            entries.append(entry)
        return entries

    def append(self, entry: Entry) -> None:
        self._entries.append(entry)
        if isinstance(entry.content, tuple):
            self._memberships.append((self.last, entry.content))

    def merge(self, previous: int, entries: list[Entry], committed: int, peer: str) -> None:
        """Take the leader ``peer``'s entries after ``previous``, in place of ours from the first one that contradicts them.

        Raises InvalidMessageError where that one is at most ``committed``.
        """
        for index, entry in enumerate(entries, previous + 1):
            if self.term_at(index) == entry.term:
                continue  # we have the entry: cutting would drop acknowledged ones that follow
            if index <= committed:
                raise InvalidMessageError(f"raft message: entry {index} of {peer} contradicts a committed one")
            if index <= self.last:
                self.truncate(index)
            self.append(entry)

    def conflict(self, previous: int, committed: int) -> int:
        """Return the log's index that a leader may try next, before all entries of the term that does not fit at ``previous``."""
        if previous > self.last:
            return self.last + 1
        wrong = self.term_at(previous)
        while previous - 1 > committed and self.term_at(previous - 1) == wrong:
            previous -= 1
        return previous

    def truncate(self, index: int) -> None:
        """Drop entry ``index`` > ``base`` of the log and all after it."""
        del self._entries[index - self.base - 1 :]
        while self._memberships[-1][0] >= index:
            self._memberships.pop()

    def compact(self, index: int) -> None:
        """Drop the entries of the log up to ``index``, all of them committed."""
        if not self.base < index <= self.last:
            return
        members, term = self.members_at(index), self[index].term
        later = [(at, changed) for at, changed in self._memberships if at > index]
        del self._entries[: index - self.base]
        self.base, self.base_term, self._memberships = index, term, [(index, members), *later]


def plain(entry: Entry) -> list[Any]:
    """Return the entry of the log as a list, for the wire."""
    return [entry.term, list(entry.content) if isinstance(entry.content, tuple) else entry.content]


def entry_of(value: list[Any]) -> Entry:
    """Return the entry of the log from a checked :func:`plain` list."""
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
