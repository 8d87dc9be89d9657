"""Messages are plain data, and pysyncobj has no unpickler left. What it would cut from a log is kept."""

import pickle
from contextlib import suppress

import pysyncobj.serializer
import pysyncobj.syncobj
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysyncobj.node import Node

from neuro_cli.election.plain import PlainPickle, packed, unpacked
from neuro_cli.election.raft import _without_known

PLAIN = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=8),
        st.binary(max_size=8),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=8,
)  # fmt: skip


@given(PLAIN)
def test_plain_data_come_back_as_they_were(value):
    found = unpacked(packed(value))
    assert found == value
    assert type(found) is type(value)


def test_nodes_come_back_and_nothing_else_is_taken():
    assert unpacked(packed(["add", Node("a@b:1")])) == ["add", Node("a@b:1")]
    with pytest.raises(TypeError, match="no plain data"):
        packed(object())


@given(st.binary(max_size=60))
def test_foreign_bytes_are_values_or_a_ValueError(content):  # noqa: N802
    with suppress(ValueError):
        unpacked(content)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('a pickle was run')",)


def test_a_pickle_runs_nothing():
    for module in (pysyncobj.syncobj, pysyncobj.serializer):
        assert module.pickle is PlainPickle
        with pytest.raises(ValueError):
            module.pickle.loads(pickle.dumps(Bomb()))


# an entry of pysyncobj's log: content, index, term
LOG = [(b"", 1, 0), (b"a", 2, 1), (b"b", 3, 1), (b"c", 4, 2)]


def message(entries, index, term, of=2):
    return {"type": "append_entries", "term": of, "entries": entries, "prevLogIdx": index, "prevLogTerm": term}


class TestKnownEntries:
    def test_entries_that_are_there_are_not_appended_again(self):
        new = (b"d", 5, 2)
        found = _without_known(message([*LOG[1:], new], 1, 0), LOG)
        assert (found["entries"], found["prevLogIdx"], found["prevLogTerm"]) == ([new], 4, 2)

    def test_a_message_overtaken_by_later_ones_cuts_nothing(self):
        log = [*LOG, (b"d", 5, 2)]
        found = _without_known(message([(b"c", 4, 2)], 3, 1), log)
        assert (found["entries"], found["prevLogIdx"], found["prevLogTerm"]) == ([], 5, 2)

    def test_what_an_earlier_leader_left_behind_is_cut(self):
        found = _without_known(message([], 3, 1, of=3), LOG)
        assert (found["entries"], found["prevLogIdx"]) == ([], 3)
        other = _without_known(message([(b"x", 4, 3)], 3, 1, of=3), LOG)
        assert (other["entries"], other["prevLogIdx"]) == ([(b"x", 4, 3)], 3)

    @pytest.mark.parametrize(("index", "term"), [(9, 2), (3, 7), (None, None)])
    def test_what_does_not_fit_is_left_to_the_library(self, index, term):
        given_message = message([(b"x", 10, 2)], index, term)
        assert _without_known(given_message, LOG) is given_message
