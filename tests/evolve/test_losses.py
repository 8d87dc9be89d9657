"""Real nodes by raft lose peers until a person has to decide, and lose their network."""

import time

import pytest
from node_lab import InProcess, progress, wait

from neuro_cli.evolve import peer_state
from neuro_cli.evolve.network import channel, connections
from neuro_cli.evolve.network.messages import address_of


def members(peer: InProcess) -> int:
    return len(peer.node.state.election.members)


def test_raft_buries_the_dead_one_by_one_and_the_follower_of_two_waits_and_says_what_to_do(tmp_path, caplog):
    peers = [InProcess(tmp_path / "0", "raft", grace=2.0)]
    peers += [InProcess(tmp_path / name, "raft", join=peers[0].address, grace=2.0) for name in "123"]
    progress(peers)
    for left in (3, 2):  # the leader is the first to go, then another
        victim = next(peer for peer in peers if peer.leads == (left == 3))
        victim.die()
        peers.remove(victim)
        wait(lambda left=left: {members(peer) for peer in peers} == {left}, 60, f"{left} members")
        progress(peers)
    leader = next(peer for peer in peers if peer.leads)
    (other,) = (peer for peer in peers if peer is not leader)
    leader.die()
    time.sleep(1.0)  # what the leader had sent arrives
    before = other.iteration
    wait(lambda: "cluster.force_new=true" in caplog.text, 60, "the advice")
    assert other.iteration == before
    other.end()


@pytest.fixture
def split(monkeypatch):
    """Addresses that no peer of the other side reaches."""
    side, reach = set[str](), channel.dial

    async def dial(target, tls, traffic, hello, *rest):
        if (address_of(target) in side) != (address_of(hello["peer"]) in side):
            raise ConnectionError("the network is split")
        return await reach(target, tls, traffic, hello, *rest)

    for module in (connections, peer_state):
        monkeypatch.setattr(module, "dial", dial)
    return side


def test_the_minority_of_a_split_commits_nothing_and_catches_up(tmp_path, split):
    peers = [InProcess(tmp_path / "0", "raft")]
    peers += [InProcess(tmp_path / name, "raft", join=peers[0].address) for name in "1234"]
    progress(peers)
    few = sorted(peers, key=lambda peer: not peer.leads)[:2]  # the leader and one other
    many = [peer for peer in peers if peer not in few]
    split |= {peer.address for peer in few}
    for _ in range(2):  # a connection that was being made is there at the second time
        for peer in peers:
            for other in few if peer in many else many:
                peer.call(peer.node.connections.drop, other.node.me)
        time.sleep(1.0)  # what the old leader had sent arrives
    stuck = [peer.iteration for peer in few]
    progress(many, by=10)
    assert [peer.iteration for peer in few] == stuck
    split.clear()
    reached = max(peer.iteration for peer in many)
    wait(lambda: min(peer.iteration for peer in few) > reached, 60, "the minority has caught up")
    heads = {peer.node.ledger.head_at(reached) for peer in peers}
    assert len(heads) == 1
    for peer in peers:
        peer.end()
