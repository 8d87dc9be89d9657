"""Messages of elections with anything in their fields: refused by one error, and nothing is changed."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_raft import Net

from neuro_cli.election import raft_log, takeover
from neuro_cli.election.messages import END, TERMS_AHEAD, InvalidMessageError, checked
from neuro_cli.election.raft_replica import Replica
from neuro_cli.election.raft_voter import Timing

VALID = {
    "ask": {"term": 4, "last": 3, "last_term": 2, "pre": False},
    "vote": {"term": 3, "pre": False, "granted": True},
    "append": {
        "term": 3,
        "previous": 1,
        "previous_term": 0,
        "commit": 1,
        "entries": [[3, b"x"], [3, None], [3, ["a", "b", "c"]]],
    },
    "snapshot": {"term": 3, "index": 9, "index_term": 3, "members": ["a", "b"], "position": 5, "head": b"12345678"},
    "appended": {"term": 3, "matches": True, "index": 1},
    "removed": {"term": 3, "leader": "a@b:1"},
    "beat": {"term": 3, "position": 7, "head": b"12345678", "members": ["a", "b"]},
    "commit": {"term": 3, "content": b"x"},
    "here": {},
    "ahead": {"position": 7, "head": b"12345678"},
    "led": {"leader": "a@b:1"},
    "level": {},
}
ALL = raft_log.FIELDS | takeover.FIELDS
ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(max_size=3), st.binary(max_size=3)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
WRONG = {
    "term": [-1, END, True, 1.0, "1", None, 3 + TERMS_AHEAD + 1], "last": [-1, END], "last_term": [-1], "pre": [0, 1, None],
    "granted": [1, "yes"], "previous": [-1, END], "previous_term": [None], "commit": [-1, b""], "matches": [1],
    "index": [-1, END], "index_term": [-1], "position": [-5, 2**63], "head": [bytes(65), "x"],
    "content": ["x", None, bytes(2**25 + 1)],
    "members": [[], ["b", "a"], ["a", "a"], [1], ["x" * 301], "ab", [""], None],
    "leader": ["", 5, "x" * 301],
    "entries": [None, [[1]], [[1, "x"]], [[-1, b""]], [[1, []]], [[1, b"", 2]], [5], b"x"],
}  # fmt: skip


def replica() -> Replica:
    found = Replica(
        "b", ("a", "b", "c"), 3, 1, Timing(0.1, 0.4, 0.8), random.Random(1), lambda position, head: True, (0, b""), 0.0
    )
    found.outbox.clear()
    return found


def test_every_type_has_a_valid_example():
    assert VALID.keys() == ALL.keys()
    for kind, fields in VALID.items():
        assert checked({"type": kind, **fields}, ALL, 3)["type"] == kind


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind in VALID for field in VALID[kind]])
def test_every_field_is_bounded(kind, field):
    for value in WRONG[field]:
        with pytest.raises(InvalidMessageError):
            checked({"type": kind, **VALID[kind], field: value}, ALL, 3)
    with pytest.raises(InvalidMessageError, match="are not those of its kind"):
        checked({"type": kind, **{name: value for name, value in VALID[kind].items() if name != field}}, ALL, 3)
    with pytest.raises(InvalidMessageError, match="are not those of its kind"):
        checked({"type": kind, **VALID[kind], "more": 1}, ALL, 3)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a busy machine draws slowly
@given(st.sampled_from(sorted(raft_log.FIELDS)), st.data())
def test_a_replica_takes_a_message_or_refuses_it_by_one_error(kind, data):
    fields = dict(VALID[kind])
    for field in data.draw(st.sets(st.sampled_from(sorted(fields)))):
        fields[field] = data.draw(ANYTHING)
    node = replica()
    before = node.committed
    try:
        node.receive("a", {"type": kind, **fields}, 1.0)
    except InvalidMessageError:
        assert node.log.last == 1
        assert not node.outbox
    assert node.committed >= before
    assert node.log.last >= node.committed


@given(ANYTHING, ANYTHING)
def test_foreign_types_are_refused(kind, value):
    with pytest.raises(InvalidMessageError):
        replica().receive("a", {"type": kind, "term": value}, 1.0)


class TestAgainstWhatIsCommitted:
    """A member that lies cannot make a replica give up what it knows to be committed."""

    def committed(self) -> Replica:
        node = replica()
        node.receive("a", {"type": "append", **VALID["append"], "commit": 3}, 1.0)
        assert node.committed == 3
        return node

    @pytest.mark.parametrize(
        "lie",
        [
            {"term": 4, "entries": [[4, b"other"]]},
            {"term": 4, "previous": 2, "previous_term": 4, "entries": []},
            {"term": 3, "previous": 3, "previous_term": 1, "entries": []},
        ],
    )
    def test_nothing_committed_is_cut(self, lie):
        node = self.committed()
        leader = "a" if lie["term"] == 3 else "c"
        with pytest.raises(InvalidMessageError, match="contradicts a committed one"):
            node.receive(leader, {"type": "append", **VALID["append"], **lie}, 1.1)
        assert [node.log[index].content for index in (2, 3)] == [b"x", None]

    def test_a_second_leader_of_a_term_is_refused(self):
        node = self.committed()
        with pytest.raises(InvalidMessageError, match="speaks as the leader of term 3, which is a"):
            node.receive("c", {"type": "append", **VALID["append"]}, 1.1)

    def test_an_acknowledgement_beyond_the_log_is_refused(self):
        node = replica()
        node.tick(1.0)
        node.receive("a", {"type": "vote", "term": 4, "pre": True, "granted": True}, 1.0)
        node.receive("a", {"type": "vote", "term": 4, "pre": False, "granted": True}, 1.0)
        assert node.leads
        with pytest.raises(InvalidMessageError, match="beyond the log"):
            node.receive("a", {"type": "appended", "term": 4, "matches": True, "index": 99}, 1.1)
        assert node.committed == 1


class TestAgainstASnapshotOfAMemberThatLies:
    """One message with a far index made a follower take all that its leader sent for old: a cluster of three stood for ever."""

    def cluster(self) -> tuple[Net, Replica]:
        """Two of three members with five iterations, and the follower among them; the third is the liar."""
        net = Net()
        for name in "bh":
            net.join(name)
        net.lost.add("h")
        net.work(5)
        return net, net.hosts["b"].election.replica

    def lie(self, follower: Replica, **fields: object) -> dict[str, object]:
        lie = {"index": 2**53, "index_term": 1, "members": ["a", "b", "h"], "position": 5, "head": b""}
        return {"type": "snapshot", "term": follower.term + 1} | lie | fields

    @pytest.mark.parametrize(
        "fields", [{}, {"index": 12}, {"members": ["h"]}, {"index_term": 2}, {"term": 2**20, "index_term": 5}]
    )
    def test_the_cluster_goes_on_and_commits_the_same(self, fields):
        net, follower = self.cluster()
        assert not follower.leads
        follower.receive("h", self.lie(follower, **fields), net.now)
        net.run(20.0)
        before = len(net.leader.ledger)
        net.work(5)
        net.run(1.0)
        first, second = (net.hosts[name] for name in "ab")
        assert len(first.ledger) == before + 5
        assert second.ledger == first.ledger
        one, other = (host.election.replica for host in (first, second))
        assert one.committed == other.committed
        assert one.log[one.committed] == other.log[other.committed]

    def test_a_snapshot_of_a_term_to_come_is_refused(self):
        _, follower = self.cluster()
        base = follower.log.base
        with pytest.raises(InvalidMessageError, match="has an entry of term"):
            follower.receive("h", self.lie(follower, index_term=follower.term + 2), 0.0)
        assert follower.log.base == base

    def test_what_was_committed_after_a_snapshot_stays(self):
        node = replica()
        node.receive("a", {"type": "snapshot", **VALID["snapshot"]}, 1.0)
        append = {"term": 3, "previous": 9, "previous_term": 3, "commit": 10, "entries": [[3, b"x"]]}
        node.receive("a", {"type": "append", **append}, 1.0)
        assert node.committed == 10
        with pytest.raises(InvalidMessageError, match="contradict committed"):
            node.receive("c", {"type": "append", **append, "term": 5, "previous": 8, "previous_term": 5, "commit": 0}, 1.0)
        assert (node.committed, node.log.base) == (10, 9)
