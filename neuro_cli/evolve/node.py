"""One peer on the network: its election, its ledger, its desk when it leads. Runs on a thread of its own.

The worker (:mod:`neuro_cli.evolve.worker`) scores and applies on the main thread and meets this one at three places:
:meth:`Node.submit`, :attr:`Node.news` and :meth:`Node.status`.
"""

import asyncio
import logging
import queue
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.election.base import Election
from neuro_cli.evolve.collector import ScoreReport, message_of, misfit, report_of
from neuro_cli.evolve.events import Committed, Failed, Reset
from neuro_cli.evolve.heartbeat import Heartbeat
from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.ledger.file import LedgerFile
from neuro_cli.evolve.ledger.ledger import Ledger, Offered
from neuro_cli.evolve.membership import Membership
from neuro_cli.evolve.network.channel import ChannelTraffic, RefusedError
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.listener import Listener
from neuro_cli.evolve.network.messages import ON_A_LINK, Limits, checked
from neuro_cli.evolve.network.rate_limit import Rationed
from neuro_cli.evolve.network.tls import Authority
from neuro_cli.evolve.settings import Settings
from neuro_cli.evolve.state_transfer import Snapshot, StateTransfer
from neuro_cli.selection.base import Selection

log = logging.getLogger(__name__)

TICK, PING, RESEND = 0.02, 1.0, 2.0  # seconds
REFUSALS = 3  # of a leader, before a peer takes it that it was removed
UNHEARD = 2.0  # seconds in which a leader says something


class Node:
    """Start with :meth:`start`; what it has to say comes in :attr:`news`."""

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
        listener: socket.socket,
        snapshot: Callable[[], Snapshot | None],
        limits: Limits,
    ) -> None:
        self.settings, self.run, self.identity, self.ledger = settings, run, identity, ledger
        self.election = election
        self._authority, self._listener = authority, listener
        self.snapshot = snapshot
        self.limits = limits
        self.news: queue.SimpleQueue[Committed | Reset | Failed] = queue.SimpleQueue()
        self.traffic = ChannelTraffic()
        self.cluster = ""
        self.entered = threading.Event()
        self.failure: Exception | None = None
        self.desk = Listener(self)
        self.me = self.new_name()
        self.leadership = Leader(self, selection, sigma)
        self.membership, self.heartbeat, self.state_transfer = Membership(self), Heartbeat(self), StateTransfer(self)
        self.working = -1  # the iteration that our worker is at
        self.best: float | None = None
        self._pending: ScoreReport | None = None
        self.known: set[str] = set()
        self._refusals, self._refused_by = 0, Rationed(log, 10)
        self._running = False
        self._thread = threading.Thread(target=self._main, name="neuro-network", daemon=True)

    def new_name(self) -> str:
        """A name with a key of its own: nobody else can speak under it."""
        self.credentials = self._authority.fresh()
        return f"{self.credentials.identifier}@{self.settings.address}"

    def tls(self) -> ssl.SSLContext:
        """Of a client that speaks under our present name."""
        return self.credentials.client

    # called by the worker's thread

    def start(self) -> None:
        self._thread.start()

    def submit(self, report: ScoreReport) -> None:
        """Report to the leader; told again until the iteration is committed."""
        self._call(self._submit, report)

    def work_on(self, iteration: int) -> None:
        """The worker has applied everything before ``iteration``."""
        self._call(self._work_on, iteration)

    def keep(self) -> None:
        """Bring the ledger to the disk, and let its file say so."""
        self._call(self._mark)

    def compact(self, iteration: int) -> None:
        """Drop records that a snapshot has made dispensable."""
        self._call(self._compact, iteration)

    def await_entry(self, stopped: Callable[[], bool]) -> None:
        """Until this peer takes part, or is to stop. Raises what has ended the network thread."""
        while not (self.entered.wait(0.05) or self.failure is not None or stopped()):
            pass
        if self.failure is not None:
            raise self.failure

    def stop(self, leave: bool) -> None:
        """End the network thread; ``leave``: tell the cluster, so that it does not wait for us."""
        self._call(self._begin_to_stop, leave)
        self._thread.join(15.0)

    def status(self) -> dict[str, Any]:
        """How the cluster stands, as far as this peer knows."""
        if not self.entered.is_set():
            return {"me": self.me, "members": [self.me], "leader": None, "term": 0, "iteration": self.ledger.next, "ages": {}}
        now = time.monotonic()
        members, last_word = self.election.members, self.heartbeat.last_word
        return {
            "me": self.me,
            "members": members,
            "leader": self.election.leader,
            "term": self.election.term,
            "iteration": self.ledger.next,
            "best": self.best,
            "ages": {peer: now - last_word[peer] for peer in members if peer in last_word},
            "progress": dict(self.heartbeat.progress),
        }

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        if self._running:
            with suppress(RuntimeError):  # it has ended this moment; the news say why
                self._loop.call_soon_threadsafe(function, *arguments)

    # the network's thread

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            log.debug("", exc_info=error)
            self.failure = error
            self.news.put(Failed(error))
        finally:
            self._running = False

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.finished = asyncio.Event()
        self._file = LedgerFile(self.run, self.ledger)
        self.connections = Connections(self.tls, self.traffic, self._link_hello, self._connected, self._refused)
        server = await asyncio.start_server(self.desk.welcome, sock=self._listener)
        self._running = True
        try:
            if self.settings.join is None:
                self.cluster = secrets.token_hex(8)
                self.leadership.wait_for_peers()
                self.enter([self.me], 0, newcomer=False)
            else:
                await self.membership.join([self.settings.join], self.settings.join_timeout)
            await self._live()
        finally:
            self._running = False
            server.close()
            self.desk.tell(at_once=True)
            self.connections.close()
            self.election.stop()
            self._file.close()

    def enter(self, members: list[str], term: int, newcomer: bool) -> None:
        self.known |= set(members)
        self._refusals = 0
        self.heartbeat.begin(members)
        self.leadership.collector.begin(self.ledger.next)
        self.election.start(self, self.me, members, term, newcomer)
        self.entered.set()

    def admitted(self) -> None:
        """Forget what was said of us before we were let in: that we are no member."""
        self._refusals = 0

    def withdraw(self) -> None:
        """Take no part in the election any more, and give up the name."""
        self.entered.clear()
        self.election.stop()
        self.connections.want(set())
        self.desk.doorway.close()
        self.me = self.new_name()
        self._pending = None  # of members that belong to the name; the worker scores others

    async def _live(self) -> None:
        ping = resend = 0.0
        leader: str | None = None
        while not self.finished.is_set():
            now = time.monotonic()
            self.election.tick()
            if self.election.leader != leader:
                leader = self.election.leader
                self.leadership.new_leader(leader)
                ping = resend = 0.0
            if now >= ping + PING:
                ping = now
                self.desk.tell()
                self.heartbeat.tell()
                if self.ledger.next < self.settings.generations:  # else peers may go: there is nothing left to commit
                    self.heartbeat.watch(now)
            if now >= resend + RESEND:
                resend = now
                self._send_pending()
            self.leadership.decide()
            if self._refusals >= REFUSALS:
                await self.membership.come_back()
            await asyncio.sleep(TICK)

    # what the election needs (Host)

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.connections.send(peer, {"k": "election", "m": message})

    def leader(self) -> str | None:
        return self.election.leader if self.entered.is_set() else None

    def now(self) -> float:
        return time.monotonic()

    def has(self, position: int, head: bytes) -> bool:
        """Whether our first ``position`` iterations are there and, as far as we still know, the ones called ``head``."""
        return position <= self.ledger.next and (position < self.ledger.base or self.ledger.head_at(position) == head)

    def position(self) -> tuple[int, bytes]:
        return self.ledger.next, self.ledger.head

    def removed(self, leader: str) -> None:
        self.known.add(leader)
        self._refusals += 1

    def wanted(self, peers: list[str]) -> None:
        self.known |= set(peers)
        self.connections.want(set(peers) - {self.me})

    def take(self, content: bytes) -> Offered:
        """Add a record to the ledger if it is the next one."""
        outcome, record = self.ledger.offer(content, self.limits.columns)
        if record is not None:
            self._keep(content)
            self.best = record.best if self.best is None else max(self.best, record.best)
            leads = self.leader() == self.me
            self.news.put(Committed(record, self.ledger.head, leads, (self.traffic.sent, self.traffic.received)))
            self.leadership.collector.begin(self.ledger.next)
            if self.ledger.next >= self.settings.generations:
                self.heartbeat.tell()
        return outcome

    def _keep(self, content: bytes) -> None:
        """Write a record. Where that fails this peer ends: its file would have a gap."""
        try:
            self._file.append(content)
        except OSError as error:
            self.failure = UserError(f"{self.run}: the ledger cannot be written: {error.strerror}")
            self.news.put(Failed(self.failure))
            self.finished.set()

    def commit(self, content: bytes) -> None:
        outcome = self.take(content)
        if outcome is Offered.GAP:
            self.fall_back(self.ledger.next + 1, b"", None)
        elif outcome is Offered.INVALID:
            log.error("a committed record is none of this version: it is left out")
        elif outcome is Offered.FORK:
            log.error("a committed record follows another history than ours: we take the leader's")
            self.fall_back(self.ledger.next, b"", self.leader())

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        if self.ledger.head_at(position) == head and head:
            return
        self.state_transfer.begin(position, source)

    def replace(self, ledger: Ledger, snapshot: Snapshot | None) -> None:
        """Our history is another's: the worker begins again."""
        if self.ledger.next <= ledger.base:
            log.info("the iterations before %d come as a snapshot", ledger.base)
        else:
            log.warning("our %d iterations give way to another history from iteration %d on", self.ledger.next, ledger.base)
        self.ledger = ledger
        self._file.close()
        self._file.rewrite(ledger)
        self._pending = None
        self.news.put(Reset(snapshot))

    # joining, leaving

    def hello(self, purpose: str) -> dict[str, Any]:
        return {
            "k": "hello",
            "for": purpose,
            "format": FORMAT,
            "peer": self.me,
            "cluster": self.cluster,
            "identity": self.identity,
        }

    def _link_hello(self) -> dict[str, Any]:
        return {"k": "hello", "for": "link", "format": FORMAT, "peer": self.me, "cluster": self.cluster}

    def _begin_to_stop(self, leave: bool) -> None:
        self._ending = self._loop.create_task(self._stop(leave), name="stop")

    async def _stop(self, leave: bool) -> None:
        try:
            if leave and self.entered.is_set() and len(self.election.members) > 1:
                await asyncio.wait_for(self.membership.leave(), 4.0)
            elif not leave and self.entered.is_set():
                await asyncio.wait_for(self.membership.linger(), 4.0)
        except (TimeoutError, RefusedError, ConnectionError) as error:
            log.info("left without a farewell: %s", error or type(error).__name__)
        self.finished.set()

    # links

    def _connected(self, peer: str, there: bool) -> None:
        log.info("%s %s", peer, "is connected" if there else "is gone")
        if there:
            self._refusals = 0
            self.heartbeat.greet(peer)
        else:
            self.leadership.collector.forget(peer)
            self.heartbeat.progress.pop(peer, None)
        if self.entered.is_set():
            self.election.connected(peer, there)

    def _refused(self, peer: str, reason: str) -> None:
        if not reason.startswith("removed"):
            self._refused_by.say(f"{peer} refuses us: {reason}")
        elif not self._led():
            self._refusals += 1

    def _led(self) -> bool:
        """Whether a leader has spoken to us just now, or is ourselves: then nobody can say that we were removed."""
        leader = self.leader()
        heard = self.heartbeat.last_word.get(leader or "", float("-inf"))
        return (leader == self.me and self.election.can_commit) or time.monotonic() - heard < UNHEARD

    def heard(self, peer: str, message: dict[str, Any]) -> None:
        """A message of an authenticated peer of our cluster. Raises MalformedError, and what the election raises."""
        kind = checked(message, *ON_A_LINK)["k"]
        belongs = peer in self.connections.wanted
        if belongs:
            self.heartbeat.heard(peer)
        if kind == "election":
            if self.entered.is_set():
                self.election.receive(peer, message["m"])
                self.election.tick()
        elif not belongs:
            return  # no member, as far as we know: it says so again
        elif kind == "report":
            self.leadership.take(peer, report_of(peer, message, self.limits))
        else:
            self.heartbeat.progress[peer] = message["next"]
            self.leadership.collector.progress(peer, message["at"])

    # scoring

    def _work_on(self, iteration: int) -> None:
        self.working = iteration
        self.leadership.collector.progress(self.me, iteration)

    def _submit(self, report: ScoreReport) -> None:
        if misfit(self.me, report, self.limits):
            return  # of members of the name that we had: the worker scores those of the new one
        self._pending = report
        self._send_pending()
        self.leadership.decide()

    def _send_pending(self) -> None:
        report = self._pending
        if report is None or not self.entered.is_set():
            return
        if report.scores.iteration < self.ledger.next - 1:
            self._pending = None
            return
        leader = self.election.leader
        if leader == self.me:
            self.leadership.take(self.me, report)
        elif leader is not None:
            self.connections.send(leader, message_of(report))

    def _mark(self) -> None:
        self._loop.run_in_executor(None, self._file.marker())  # a disk may take longer than an election waits

    def _compact(self, iteration: int) -> None:
        self.ledger.compact(iteration)
        self._file.close()
        self._file.rewrite(self.ledger)
        log.info("the ledger is compacted: a snapshot up to iteration %d, and %d records", iteration, len(self.ledger.records))
