"""A cluster that loses peers until a person has to decide, and one whose newcomer gets a snapshot: real nodes by raft."""

import time

import torch
from node_lab import InProcess, progress, wait

from neuro_cli.evolve.peer_ledger import Snapshot


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


def test_a_newcomer_gets_a_snapshot_and_the_records_after_it(tmp_path, caplog):
    caplog.set_level("INFO")
    founder = InProcess(tmp_path / "founder", "raft")
    progress([founder], by=5)
    ledger = founder.node.ledger
    head = ledger.head_at(4)
    assert head is not None
    founder.snapshot = Snapshot(4, head, {"centre": torch.zeros(5)})
    founder.call(founder.node.peer_ledger.compact, 4)
    newcomer = InProcess(tmp_path / "newcomer", "raft", join=founder.address)
    progress([founder, newcomer])
    assert newcomer.node.ledger.base == 4
    assert newcomer.node.ledger.head_at(5) == founder.node.ledger.head_at(5)
    assert "the iterations before 4 come as a snapshot" in caplog.text
    for peer in (newcomer, founder):
        peer.end(leave=True)
