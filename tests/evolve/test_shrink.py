"""A cluster that only loses peers: one after the other down to the last, without anybody's help."""

import time

import pytest
from cluster_lab import Lab, Peer, consistent
from node_lab import free_port

pytestmark = pytest.mark.slow


def members(lab: Lab, peer: Peer) -> int:
    status = lab.status(peer)
    return len(status["members"]) if status else 0


def commits(lab: Lab, peer: Peer) -> None:
    now = peer.iteration()
    lab.wait(lambda: peer.iteration() > now + 5, 60, "further iterations")


def founded(lab: Lab, size: int) -> None:
    first = lab.start()
    for _ in range(size - 1):
        lab.start(join=first.address)
    lab.wait(lambda: lab.whole(lab.alive) and members(lab, first) == size, 120, "the first cluster")


@pytest.mark.timeout(600)
def test_raft_buries_the_dead_one_by_one_and_its_last_leader_goes_on_alone(tmp_path):
    lab = Lab(tmp_path, "generations=10000000", "cluster.grace=2.0", "cluster.deadline=2.0")
    try:
        founded(lab, 4)
        for left in (3, 2):  # the leader is the first to go, then another
            leader = lab.leader()
            victim = leader if left == 3 else next(peer for peer in lab.alive if peer is not leader)
            assert victim is not None
            victim.kill()
            lab.wait(lambda left=left: lab.whole(lab.alive) and members(lab, lab.alive[0]) == left, 60, f"{left} members")
            commits(lab, lab.alive[0])
        leader = lab.leader()
        assert leader is not None
        (other,) = (peer for peer in lab.alive if peer is not leader)
        other.kill()
        lab.wait(lambda: members(lab, leader) == 1, 60, "the last member")
        commits(lab, leader)
    finally:
        lab.end()
    assert leader.process.returncode == 0
    assert consistent(lab.ledgers()) == leader.iteration()


@pytest.mark.timeout(600)
def test_the_follower_of_two_waits_and_says_what_to_do(tmp_path):
    lab = Lab(tmp_path, "generations=10000000", "cluster.grace=2.0", "cluster.deadline=2.0")
    try:
        founded(lab, 2)
        leader = lab.leader()
        assert leader is not None
        (other,) = (peer for peer in lab.alive if peer is not leader)
        commits(lab, other)
        leader.kill()
        time.sleep(2.0)  # what the leader had sent arrives
        before = other.iteration()
        lab.wait(lambda: "cluster.force_new=true" in (other.run / "log.txt").read_text(), 60, "the advice")
        assert other.iteration() == before
    finally:
        lab.end()
    assert other.process.returncode == 0


@pytest.mark.timeout(600)
def test_the_rest_goes_on_down_to_one_survivor(tmp_path):
    takeover = ("election=takeover", f"election.port={free_port()}")
    lab = Lab(tmp_path, *takeover, "generations=10000000", "cluster.grace=2.0", "cluster.deadline=2.0")
    try:
        founded(lab, 5)
        for _ in range(4):
            leader = lab.leader()
            assert leader is not None
            leader.kill()
            lab.wait(lambda: lab.leader() is not None, 60, "a new leader")
            commits(lab, lab.alive[0])
        (survivor,) = lab.alive
        lab.wait(lambda: members(lab, survivor) == 1, 60, "the dead are removed")
        commits(lab, survivor)
    finally:
        lab.end()
    assert survivor.process.returncode == 0
    # a peer that was killed as the leader may have an iteration that it told nobody: the others are prefixes
    assert survivor.iteration() > max(peer.iteration() for peer in lab.peers if peer is not survivor)
