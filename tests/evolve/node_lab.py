"""Real nodes in the test's own process: TLS on loopback, elections, a ledger file; only the model is left out."""

import asyncio
import hashlib
import queue
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
from support.configs import composed
from support.waiting import until as wait

from neuro_cli.election.base import Election
from neuro_cli.election.raft import Raft
from neuro_cli.election.takeover import FirstToFinish
from neuro_cli.evolve.collector import ScoreReport
from neuro_cli.evolve.config import ClusterConfig
from neuro_cli.evolve.identity import FORMAT, canonical
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.network.channel import Channel, dial
from neuro_cli.evolve.network.messages import Limits
from neuro_cli.evolve.node import Committed, Failed, Node, Reset
from neuro_cli.evolve.node_thread import NodeThread
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.fabric.base import Traffic
from neuro_cli.runner.config import section
from neuro_cli.selection.base import Scores
from neuro_cli.selection.linear_combination import LinearCombination
from neuro_cli.tls.evolve_peer import Authority

AUTHORITY = Authority("a secret for the tests")
IDENTITY: dict[str, Any] = {"seed": 1, "model": "none"}
POPULATION, COLUMNS = 4, 2


def own_first(peer: str, iteration: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{peer} {iteration}".encode()).digest()[:4], "little")


LIMITS = Limits(
    POPULATION, COLUMNS, origin(canonical(IDENTITY)), {"centre": ((5,), "torch.float32")}, 20, own_first
)  # fmt: skip


def election_of(name: str) -> Election:
    """An election by its name: ``raft``, or ``takeover PORT``."""
    _, _, port = name.partition(" ")
    return FirstToFinish(int(port)) if port else Raft(0.2, 0.8, 1.6, 1000)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def report_on(peer: str, iteration: int) -> ScoreReport:
    """Report that an honest peer might send."""
    draw = np.random.default_rng(own_first(peer, iteration))
    fitness = draw.standard_normal(POPULATION).astype(np.float32)
    means = np.array([fitness.mean(), 1.0], np.float32)
    return ScoreReport(Scores(iteration, own_first(peer, iteration), fitness), POPULATION, means)


class Scorer(threading.Thread):
    """The worker of a node: reports numbers, and takes what is committed."""

    def __init__(self, network: NodeThread) -> None:
        super().__init__(daemon=True)
        self._network, node = network, network.node
        self._node, self.at, self._scored, self.ended = node, node.ledger.next, (-1, ""), threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                news = self._node.events.get(timeout=0.01)
            except queue.Empty:
                self._score()
                continue
            if isinstance(news, Committed):
                self.at += 1
                self._network.work_on(self.at)
            elif isinstance(news, Reset):
                self.at = news.snapshot.iteration if news.snapshot else 0
            else:
                assert isinstance(news, Failed)
                return

    def _score(self) -> None:
        node = self._node
        if node.entered.is_set() and node.ledger.next == self.at and self._scored != (self.at, node.me):
            self._scored = (self.at, node.me)
            self._network.submit(report_on(node.me, self.at))


class InProcess:
    """A peer; ``join``: address of another one."""

    def __init__(self, run: Path, election: str, join: str | None = None, grace: float = 60.0, deadline: float = 0.5) -> None:
        run.mkdir(parents=True)
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = f"127.0.0.1:{listener.getsockname()[1]}"
        times = {"join": join, "grace": grace, "deadline": deadline, "join_timeout": 20.0, "local_peers": 1}
        settings = section(ClusterConfig, composed(verb="evolve")["cluster"] | times, "cluster.")
        state = PeerState(settings, self.address, 2**32 - 1, IDENTITY, election_of(election), AUTHORITY)
        selection = LinearCombination(0.02, "centred_rank")
        self.node = Node(state, run, Ledger(LIMITS.origin), selection, 0.05, listener, lambda: None, LIMITS)
        self.listener = listener
        self.network = NodeThread(self.node)
        self.scorer = Scorer(self.network)
        self.network.start()
        self.network.await_entry(lambda: False)
        self.scorer.start()

    @property
    def iteration(self) -> int:
        return self.node.ledger.next

    @property
    def leads(self) -> bool:
        return self.node.state.election.leader == self.node.me

    def call(self, function: Any, *arguments: Any, timeout: float = 30.0) -> Any:
        """The outcome of ``function`` on the network's thread."""

        async def called() -> Any:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(called(), self.node.loop).result(timeout)

    def die(self) -> None:
        """End as a killed process does: without a word, with its sockets closed."""
        self.scorer.ended.set()
        self.call(self.node.finished.set)
        wait(lambda: not self.node.running, 30.0, "the end of a node")
        self.listener.close()

    def end(self, leave: bool = False) -> None:
        self.scorer.ended.set()
        self.network.stop(leave)
        self.listener.close()


def progress(peers: list[InProcess], by: int = 3, timeout: float = 30.0) -> None:
    """Wait until all ``peers`` have committed ``by`` further iterations."""
    before = max(peer.iteration for peer in peers)
    for peer in peers:
        wait(lambda peer=peer: peer.iteration >= before + by or peer.node.failure, timeout, f"further iterations after {before}")
        assert peer.node.failure is None, peer.node.failure


async def visit(
    target: str, hello: dict[str, Any], answers: tuple[str, ...], credentials: Any = None
) -> tuple[Channel, dict[str, Any]]:
    """Dial as somebody who knows the secret; by default under a new key."""
    tls = (credentials or AUTHORITY.fresh()).client
    return await dial(target, tls, Traffic(), {"k": "hello", "format": FORMAT, **hello}, answers, 10.0)
