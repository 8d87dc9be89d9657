"""Node of a peer on the network: wires its parts together and runs the loop that drives them.

:mod:`neuro_cli.evolve.node_thread` runs it on a thread of its own.
"""

import asyncio
import queue
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neuro_cli.election.base import Election
from neuro_cli.evolve.dispatch import Dispatch
from neuro_cli.evolve.events import Committed, Failed, Reset
from neuro_cli.evolve.host import ElectionHost
from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.membership import Membership
from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.channel import ChannelTraffic
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.leader_port import LeaderPort
from neuro_cli.evolve.network.listener import Listener
from neuro_cli.evolve.network.messages import Limits
from neuro_cli.evolve.network.tls import Authority
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.reporter import Reporter
from neuro_cli.evolve.settings import Settings
from neuro_cli.evolve.state_transfer import Snapshot, StateTransfer
from neuro_cli.selection.base import Selection

TICK, PING, RESEND = 0.05, 1.0, 2.0  # seconds; each tick wakes this thread on the core that scores


class Node:
    """Runs by :meth:`serve`, on one thread; :attr:`events` is the queue of its reports to the worker.

    ``server``: the socket that others connect to. ``snapshot``: gives the newest snapshot of this peer's model, if there is one.
    """

    def __init__(
        self,
        settings: Settings,
        run: Path,
        identity: dict[str, Any],
        ledger: Ledger,
        election: Election,
        selection: Selection,
        sigma: float,
        authority: Authority,
        server: socket.socket,
        snapshot: Callable[[], Snapshot | None],
        limits: Limits,
    ) -> None:
        self.settings, self.identity, self.limits, self.run = settings, identity, limits, run
        self.election, self.snapshot = election, snapshot
        self._authority, self._server = authority, server
        self.events: queue.SimpleQueue[Committed | Reset | Failed] = queue.SimpleQueue()
        self.failure: Exception | None = None
        self.entered = threading.Event()
        self.running = False
        self.cluster = ""
        self.known: set[str] = set()
        self.working = -1  # the iteration that our worker is at
        self.traffic = ChannelTraffic()
        self.me = self._new_name()
        self.dispatch, self.removal = Dispatch(self), RemovalDetector(self)
        self.connections = Connections(
            self.tls, self.traffic, lambda: self.greeting("link"), self.dispatch.connection_changed, self.removal.refused
        )
        self.peer_ledger = PeerLedger(self, run, ledger)
        self.heartbeat, self.listener = Heartbeat(self), Listener(self)
        self.leader_port = LeaderPort(self, self.listener.accept)
        self.leader, self.reporter = Leader(self, selection, sigma), Reporter(self)
        self.state_transfer, self.membership = StateTransfer(self), Membership(self)

    @property
    def ledger(self) -> Ledger:
        return self.peer_ledger.ledger

    def current_leader(self) -> str | None:
        """Name of the leader, None while there is none or this peer takes no part."""
        return self.election.leader if self.entered.is_set() else None

    # the loop

    async def serve(self) -> None:
        """Found or join a cluster and take part in it, until :meth:`stop` or a failure."""
        self.loop = asyncio.get_running_loop()
        self.finished = asyncio.Event()
        self.peer_ledger.open()
        server = await asyncio.start_server(self.listener.accept, sock=self._server)
        self.running = True
        try:
            if self.settings.join is None:
                self.cluster = secrets.token_hex(8)
                self.leader.wait_for_peers()
                self.enter([self.me], 0, newcomer=False)
            else:
                await self.membership.join([self.settings.join], self.settings.join_timeout)
            await self._live()
        finally:
            self.running = False
            server.close()
            self.listener.log_refusals(at_once=True)
            self.connections.close()
            self.election.stop()
            self.peer_ledger.close()

    async def _live(self) -> None:
        ping = resend = 0.0
        leader: str | None = None
        while not self.finished.is_set():
            now = time.monotonic()
            self.election.tick()
            if self.election.leader != leader:
                leader = self.election.leader
                self.leader.changed(leader)
                ping = resend = 0.0
            if now >= ping + PING:
                ping = now
                self.listener.log_refusals()
                self.heartbeat.send_to_all()
                if self.ledger.next < self.settings.generations:  # else peers may go: there is nothing left to commit
                    self.heartbeat.watch(now)
            if now >= resend + RESEND:
                resend = now
                self.reporter.send()
            self.leader.decide()
            if self.removal.detected:
                await self.membership.rejoin()
            await asyncio.sleep(TICK)

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

    def enter(self, members: list[str], term: int, newcomer: bool) -> None:
        """Take part in the election beside ``members``."""
        self.known |= set(members)
        self.removal.clear()
        self.heartbeat.begin(members)
        self.leader.collector.begin(self.ledger.next)
        self.election.start(ElectionHost(self), self.me, members, term, newcomer)
        self.entered.set()

    def withdraw(self) -> None:
        """Take no part in the election any more, and give up the name."""
        self.entered.clear()
        self.election.stop()
        self.connections.want(set())
        self.listener.admission.close()
        self.me = self._new_name()
        self.reporter.discard()

    def _new_name(self) -> str:
        """Draw a name with a key of its own, so that no other peer can speak under it."""
        self.credentials = self._authority.fresh()
        return f"{self.credentials.identifier}@{self.settings.address}"

    def tls(self) -> ssl.SSLContext:
        """TLS context of a client under our present name."""
        return self.credentials.client

    def hello(self, purpose: str) -> dict[str, Any]:
        """First message of a connection that we open for ``purpose``, with the identity of our run."""
        return self.greeting(purpose) | {"identity": self.identity}

    def greeting(self, purpose: str) -> dict[str, Any]:
        """First message of a connection to a peer of our own cluster."""
        return {"k": "hello", "for": purpose, "format": FORMAT, "peer": self.me, "cluster": self.cluster}

    # reports of the parts

    def work_on(self, iteration: int) -> None:
        """Note that the worker has applied everything before ``iteration``."""
        self.working = iteration
        self.leader.collector.progress(self.me, iteration)

    def committed(self, record: LedgerRecord, head: bytes) -> None:
        """Report a record that the ledger has taken; ``head``: hash of everything up to it."""
        leads = self.current_leader() == self.me
        self.events.put(Committed(record, head, leads, (self.traffic.sent, self.traffic.received)))
        self.leader.collector.begin(self.ledger.next)
        if self.ledger.next >= self.settings.generations:
            self.heartbeat.send_to_all()

    def replaced(self, snapshot: Snapshot | None) -> None:
        """Report that our history gave way to another."""
        self.reporter.discard()
        self.events.put(Reset(snapshot))
