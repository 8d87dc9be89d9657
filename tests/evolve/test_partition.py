"""A network that splits: peers in namespaces of their own on two bridges; the minority commits nothing, and catches up."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cluster_lab import Lab, Peer, consistent, leader_lines
from test_kills import replayed

from neuro_cli.fabric.emulation.kernel import missing_rights

missing = missing_rights() or ("" if shutil.which("ip") else "no ip (iproute2)")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing), reason=missing or "-")]
SIZE = 5


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


class Network:
    """Hosts 1 to ``count`` at 10.78.0.N, each a namespace with a cable to one of two bridges."""

    def __init__(self, count: int) -> None:
        self.mark = f"neuro{os.getpid()}"
        self.hub = f"{self.mark}hub"
        self.names = {number: f"{self.mark}h{number}" for number in range(1, count + 1)}
        ip("netns", "add", self.hub)
        for bridge in ("one", "two"):
            ip("-n", self.hub, "link", "add", bridge, "type", "bridge")
            ip("-n", self.hub, "link", "set", bridge, "up")
        for number, name in self.names.items():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{number}", "netns", self.hub)
            ip("-n", name, "addr", "add", f"10.78.0.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", self.hub, "link", "set", f"p{number}", "up")
            self.plug(number, "one")

    def plug(self, number: int, bridge: str) -> None:
        ip("-n", self.hub, "link", "set", f"p{number}", "master", bridge)

    def sent(self, number: int) -> int:
        """Bytes that the kernel counted out of a host, all headers included."""
        command = ["ip", "netns", "exec", self.names[number], "cat", "/sys/class/net/eth0/statistics/tx_bytes"]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def close(self) -> None:
        for name in (*self.names.values(), self.hub):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def network():
    found = Network(SIZE)
    yield found
    found.close()


def started(lab: Lab, network: Network) -> list[Peer]:
    """A peer on every host, all in one cluster."""
    peers = []
    for number, name in network.names.items():
        join = peers[0].address if peers else None
        peers.append(lab.start(f"cluster.bind=10.78.0.{number}", join=join, prefix=("ip", "netns", "exec", name)))
    lab.wait(lambda: taking_part(peers[0]) == SIZE, 180, "all take part")
    return peers


def taking_part(peer: Peer) -> int:
    """Peers whose reports made the last iteration."""
    path = peer.run / "metrics.csv"
    lines = path.read_text().splitlines() if path.exists() else []
    return int(dict(zip(lines[0].split(","), lines[-1].split(","), strict=True))["peers"]) if len(lines) > 1 else 0


def present_leader(peers: list[Peer]) -> str:
    return max((line for peer in peers for line in leader_lines(peer.run, 0.0)), key=lambda line: line[0])[1]


@pytest.mark.timeout(900)
def test_the_minority_of_a_split_commits_nothing_and_catches_up(tmp_path, network):
    lab = Lab(tmp_path, "generations=10000000", "cluster.grace=6.0", "cluster.deadline=1.0")
    try:
        peers = started(lab, network)
        leader = present_leader(peers)
        (inside,) = [number for number, peer in enumerate(peers, 1) if leader.endswith(f"@{peer.address}")]
        minority = {inside, inside % SIZE + 1}  # the leader and one other
        split = time.time()
        for number in minority:
            network.plug(number, "two")
        few = [peer for number, peer in enumerate(peers, 1) if number in minority]
        many = [peer for number, peer in enumerate(peers, 1) if number not in minority]
        time.sleep(2.0)  # what the old leader had sent before arrives
        stuck = [peer.iteration() for peer in few]
        lab.wait(lambda: min(peer.iteration() for peer in many) > max(stuck) + 20, 90, "the majority goes on")
        elected = min(when for peer in many for when, _ in leader_lines(peer.run, split)) - split
        time.sleep(8.0)
        assert [peer.iteration() for peer in few] == stuck
        reached = max(peer.iteration() for peer in many)
        for number in minority:
            network.plug(number, "one")
        healed = lab.wait(lambda: min(peer.iteration() for peer in few) > reached, 120, "the minority has caught up")
        lab.wait(lambda: taking_part(many[0]) == SIZE, 120, "all take part again")
    finally:
        lab.end()
    total = consistent(lab.ledgers())
    longest = max(lab.ledgers(), key=lambda ledger: ledger.next)
    truth = replayed(peers[0].run, longest, {peer.summary()["generations"] for peer in peers})
    for peer in peers:
        assert peer.summary()["parameters_sha256"] == truth[peer.summary()["generations"]]
    print(f"a leader of the majority after {elected:.2f} s; minority caught up {healed:.2f} s after healing; {total} iterations")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", ["MNIST_10K", "CIF_8M"])
def test_bytes_of_an_iteration_do_not_depend_on_the_model(tmp_path, network, model):
    """Counted by the kernel at each worker's interface, Ethernet headers and heartbeats included."""
    big = ("batch_size=4", "cluster.join_timeout=120") if model == "CIF_8M" else ()
    lab = Lab(tmp_path, "generations=10000000", "selection=max", "cluster.deadline=60", f"model={model}", *big)
    try:
        peers = started(lab, network)
        before, sent = peers[0].iteration(), [network.sent(number) for number in network.names]
        count = 10 if model == "CIF_8M" else 50
        begun = time.monotonic()
        lab.wait(lambda: peers[0].iteration() >= before + count, 300, "iterations")
        iterations, seconds = peers[0].iteration() - before, time.monotonic() - begun
        each = [(network.sent(number) - was) / iterations for number, was in zip(network.names, sent, strict=True)]
    finally:
        lab.end()
    rows = Path(peers[1].run / "metrics.csv").read_text().splitlines()
    columns = rows[0].split(",")
    counted = sorted(int(row.split(",")[columns.index("bytes_sent")]) for row in rows[-iterations:])
    print(
        f"{model}: bytes sent in an iteration by the kernel's count {[round(value) for value in each]}, "
        f"{seconds / iterations:.2f} s an iteration; a worker's own count, median {counted[len(counted) // 2]}"
    )
    heartbeats = 1000 * seconds / iterations  # of a machine so busy that an iteration takes seconds
    assert counted[len(counted) // 2] < 2000 + heartbeats
