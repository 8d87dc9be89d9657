"""Node of a peer on the network: wires its parts together and runs the loop that drives them.

:mod:`neuro_cli.evolve.node_thread` runs it on a thread for the network.
"""

import asyncio
import logging
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neuro_cli.election.base import Host
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.membership import Membership, RemovalDetector
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.leader_port import LeaderPort
from neuro_cli.evolve.network.listener import Listener
from neuro_cli.evolve.network.messages import Limits
from neuro_cli.evolve.peer_ledger import PeerLedger, Snapshot
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.evolve.reporter import Reporter
from neuro_cli.evolve.state_transfer import StateTransfer
from neuro_cli.selection.base import Selection

log = logging.getLogger(__name__)

TICK = 0.05  # seconds between two rounds of the loop; each wakes this thread on the core that scores
WATCH = 1.0  # seconds between two looks at who is silent


@dataclass(frozen=True)
class Committed:
    """Commit of the next record; ``head``: hash of everything up to it; ``traffic``: bytes sent and received so far."""

    record: LedgerRecord
    head: bytes
    leads: bool
    traffic: tuple[int, int]


@dataclass(frozen=True)
class Reset:
    """Reset of the model to a snapshot, or (None) to the initial one."""

    snapshot: Snapshot | None


@dataclass(frozen=True)
class Failed:
    """Failure: the network thread has ended by this error."""

    error: Exception


class Node:
    """Node that runs by :meth:`serve`, on one thread; :attr:`events` is the queue of its reports to the worker.

    ``server``: socket that others connect to. ``snapshot``: returns the newest snapshot of this peer's model, None without one.
    """

    def __init__(
        self,
        state: PeerState,
        run: Path,
        ledger: Ledger,
        selection: Selection,
        sigma: float,
        server: socket.socket,
        snapshot: Callable[[], Snapshot | None],
        limits: Limits,
    ) -> None:
        self.events: queue.SimpleQueue[Committed | Reset | Failed] = queue.SimpleQueue()
        self.failure: Exception | None = None
        self.finished = asyncio.Event()
        self.running = False
        self._server = server
        self.state = state
        # callbacks come from the loop alone, when all parts exist
        self.connections = Connections(
            state.tls, state.traffic, lambda: state.greeting("link"),
            lambda peer, connected: self._connection_changed(peer, connected),
            lambda peer, reason: self.removal.refused(peer, reason),
        )  # fmt: skip
        self.peer_ledger = PeerLedger(
            run, ledger, limits, self._committed, self._replaced, self.fail,
            lambda position, source: self.state_transfer.begin(position, source),
        )  # fmt: skip
        self.state_transfer = StateTransfer(state, self.connections, self.peer_ledger)
        self.heartbeat = Heartbeat(state, self.connections, self.peer_ledger, run)
        self.removal = RemovalDetector(state, self.heartbeat)
        self.leader = Leader(state, self.connections, self.peer_ledger, self.heartbeat, selection, sigma)
        self.reporter = Reporter(state, self.connections, self.peer_ledger, self.leader)
        self.listener = Listener(state, self.connections, self.peer_ledger, self.heartbeat, self.leader, snapshot)
        self.leader_port = LeaderPort(state, self.listener.accept)
        self.membership = Membership(
            state, self.connections, self.peer_ledger, self.heartbeat, self.removal, self.state_transfer, self.finished,
            self._enter, self._withdraw,
        )  # fmt: skip
        self._host = Host(
            now=time.monotonic, send=self.connections.send_election, wanted=self._wanted, removed=self.removal.reported,
            commit=self.peer_ledger.commit, position=self.peer_ledger.position, has=self.peer_ledger.has,
            fall_back=self.peer_ledger.fall_back, stop_fetching=self.state_transfer.stop,
            open_port=self.leader_port.open, close_port=self.leader_port.close, knock=self.leader_port.knock,
        )  # fmt: skip

    @property
    def me(self) -> str:
        return self.state.me

    @property
    def entered(self) -> threading.Event:
        return self.state.entered

    @property
    def ledger(self) -> Ledger:
        return self.peer_ledger.ledger

    # the loop

    async def serve(self) -> None:
        """Found or join a cluster and take part in it, until :meth:`stop` or a failure."""
        self.loop = asyncio.get_running_loop()
        settings = self.state.settings
        self.peer_ledger.open()
        server = await asyncio.start_server(self.listener.accept, sock=self._server)
        self.running = True
        try:
            if settings.join is None:
                self.state.cluster = secrets.token_hex(8)
                self.leader.wait_for_peers()
                self._enter([self.me], 0, newcomer=False)
            else:
                await self.membership.join([settings.join], settings.join_timeout)
            await self._live()
        finally:
            self.running = False
            server.close()
            self.listener.log_refusals(at_once=True)
            self.connections.close()
            self.state.election.stop()
            self.peer_ledger.close()

    async def _live(self) -> None:
        ping = watched = 0.0
        election, leader = self.state.election, None
        while not self.finished.is_set():
            now = time.monotonic()
            election.tick()
            if election.leader != leader:
                leader = election.leader
                self.leader.changed(leader)
                self.reporter.hurry()
                ping = watched = 0.0
            if now >= ping + self.heartbeat.interval:
                ping = now
                self.heartbeat.send_to_all()
            if now >= watched + WATCH:
                watched = now
                self._watch(now)
            self.reporter.send_again(now)
            self.leader.decide()
            if self.removal.detected:
                await self.membership.rejoin()
            await asyncio.sleep(TICK)

    def _watch(self, now: float) -> None:
        self.listener.log_refusals()
        if not self._is_complete():  # peers may go after the last iteration: nothing is left to commit
            self.heartbeat.watch(now)

    def _is_complete(self) -> bool:
        return self.ledger.next >= self.state.generations

    async def stop(self, leave: bool) -> None:
        """Leave the cluster, or (``leave`` false) stay until all members have all iterations; then end :meth:`serve`."""
        if self.entered.is_set():
            await self.membership.end(leave)
        self.finished.set()

    def fail(self, error: Exception) -> None:
        """End by an error."""
        self.failure = error
        self.events.put(Failed(error))
        self.finished.set()

    # membership

    def _enter(self, members: list[str], term: int, newcomer: bool) -> None:
        """Join the election of ``members``."""
        self.state.met |= set(members)
        self.removal.clear()
        self.heartbeat.begin(members)
        self.leader.collector.begin(self.ledger.next)
        self.state.election.start(self._host, self.me, members, term, newcomer)
        self.entered.set()

    def _withdraw(self) -> None:
        """Leave the election, and give up the name."""
        self.entered.clear()
        self.state.election.stop()
        self.connections.want(set())
        self.listener.admission.close()
        self.state.rename()
        self.reporter.discard()

    # reports of the parts

    def _wanted(self, peers: list[str]) -> None:
        self.state.met |= set(peers)
        self.connections.want(set(peers) - {self.me})

    def _connection_changed(self, peer: str, connected: bool) -> None:
        """Note that messages to ``peer`` can be sent now, or no longer."""
        log.info("%s %s", peer, "is connected" if connected else "is gone")
        if connected:
            self.removal.clear()
            self.heartbeat.send_to(peer)
            self.reporter.hurry()  # an earlier report may be lost
        else:
            self.leader.collector.forget(peer)
            self.heartbeat.progress.pop(peer, None)
        if self.entered.is_set():
            self.state.election.connected(peer, connected)

    def work_on(self, iteration: int) -> None:
        """Note that the worker has applied everything before ``iteration``."""
        self.state.working = iteration
        self.leader.collector.progress(self.me, iteration)

    def _committed(self, record: LedgerRecord, head: bytes) -> None:
        """Report a record that the ledger has taken; ``head``: hash of everything up to it."""
        traffic = self.state.traffic
        self.events.put(Committed(record, head, self.state.leader == self.me, (traffic.sent, traffic.received)))
        self.leader.collector.begin(self.ledger.next)
        if self._is_complete():
            self.heartbeat.send_to_all()

    def _replaced(self, snapshot: Snapshot | None) -> None:
        """Report that another history replaced ours."""
        self.reporter.discard()
        self.events.put(Reset(snapshot))
