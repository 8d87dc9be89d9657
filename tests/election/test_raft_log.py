"""The log of Raft against a plain list that keeps everything."""

from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.election.raft_log import Entry, Log

CONTENTS = st.one_of(
    st.none(), st.binary(max_size=5), st.sets(st.sampled_from("abc"), min_size=1).map(lambda s: tuple(sorted(s)))
)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), CONTENTS), st.tuples(st.just("truncate"), st.integers(0, 20)),
        st.tuples(st.just("compact"), st.integers(0, 20)),
    ),
    max_size=30,
)  # fmt: skip


@given(CHANGES)
def test_like_a_list(changes):
    log, entries, base = Log(0, 0, ("a",)), [], 0
    for term, (kind, value) in enumerate(changes):
        if kind == "append":
            entries.append(Entry(term, value))
            log.append(entries[-1])
        elif kind == "truncate" and base < value <= len(entries):
            del entries[value - 1 :]
            log.truncate(value)
        elif kind == "compact":
            base = value if base < value <= len(entries) else base
            log.compact(value)
        assert (log.base, log.last) == (base, len(entries))
        assert log.last_term == (entries[-1].term if entries else 0)
        members = [("a",)]
        for entry in entries:
            members.append(entry.content if isinstance(entry.content, tuple) else members[-1])
        assert log.members == members[-1]
        for index in range(base, len(entries) + 1):
            assert log.members_at(index) == members[index]
            assert log.term_at(index) == (entries[index - 1].term if index else 0)
            assert log.after(index, 2**20) == entries[index:]
        assert log.term_at(len(entries) + 1) is None
        assert base == 0 or log.term_at(base - 1) is None


def test_entries_of_a_message_are_bounded_but_for_the_first():
    log = Log(0, 0, ("a",))
    for _ in range(5):
        log.append(Entry(1, bytes(100)))
    assert [len(log.after(0, size)) for size in (1, 100, 199, 200, 499, 500, 10_000)] == [1, 1, 1, 2, 4, 5, 5]
