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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuro_cli.core.errors import UserError
from neuro_cli.election.base import Election
from neuro_cli.evolve.channel import Channel, RefusedError, Traffic, dial
from neuro_cli.evolve.collector import Collector, Report
from neuro_cli.evolve.desk import Desk
from neuro_cli.evolve.history import Snapshot, fetch
from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.ledger import Ledger, Outcome
from neuro_cli.evolve.ledger_file import LedgerFile
from neuro_cli.evolve.links import Links
from neuro_cli.evolve.record import Record, encoded
from neuro_cli.selection.base import Scores, Selection

log = logging.getLogger(__name__)

TICK, PING, RESEND, SILENT = 0.02, 1.0, 2.0, 4.0  # seconds
PATIENCE = 60.0  # seconds that a founder waits for the peers it has started
ENTRY = 10.0  # seconds in which a newcomer is let in, or asks again
REFUSALS = 3  # of a leader, before a peer takes it that it was removed


@dataclass(frozen=True)
class Committed:
    """News for the worker: the next record; ``head`` names everything up to it. ``traffic``: bytes sent and received so far."""

    record: Record
    head: bytes
    leads: bool
    traffic: tuple[int, int]


@dataclass(frozen=True)
class Reset:
    """News for the worker: begin again from a snapshot, or (None) from the initial model."""

    snapshot: Snapshot | None


@dataclass(frozen=True)
class Failed:
    """News for the worker: the network thread has ended by this error."""

    error: Exception


@dataclass
class Settings:
    """What the config says of the network. Times in seconds."""

    address: str  # under which others reach this peer
    join: str | None
    grace: float
    deadline: float
    late: str
    join_timeout: float
    generations: int
    begin_with: int  # peers that are waited for before the first iteration


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
        tls: tuple[ssl.SSLContext, ssl.SSLContext],
        listener: socket.socket,
        snapshot: Callable[[], Snapshot | None],
    ) -> None:
        self.settings, self.run, self.identity, self.ledger = settings, run, identity, ledger
        self.election, self._selection, self._sigma = election, selection, sigma
        self._server_tls, self.tls = tls
        self._listener = listener
        self.snapshot = snapshot
        self.news: queue.SimpleQueue[Committed | Reset | Failed] = queue.SimpleQueue()
        self.traffic = Traffic()
        self.cluster = ""
        self.entered = threading.Event()
        self.me = self._new_name()
        self.collector = Collector(settings.deadline, settings.late)
        self.last_word: dict[str, float] = {}
        self.progress: dict[str, int] = {}  # committed iterations that others have, by their own word
        self.working = -1  # the iteration that our worker is at
        self.best: float | None = None
        self._pending: Report | None = None
        self._proposed = (-1, 0.0)
        self._fetching: asyncio.Task[None] | None = None
        self._known: set[str] = set()
        self._refusals = 0
        self._leader_lost: float | None = None
        self._told_lost = False
        self._waits_until: float | None = None
        self._running = False
        self._thread = threading.Thread(target=self._main, name="neuro-network", daemon=True)

    def _new_name(self) -> str:
        return f"{secrets.token_hex(8)}@{self.settings.address}"

    # called by the worker's thread

    def start(self) -> None:
        self._thread.start()

    def submit(self, report: Report) -> None:
        """Report to the leader; told again until the iteration is committed."""
        self._call(self._submit, report)

    def work_on(self, iteration: int) -> None:
        """The worker has applied everything before ``iteration``."""
        self._call(self._work_on, iteration)

    def compact(self, iteration: int) -> None:
        """Drop records that a snapshot has made dispensable."""
        self._call(self._compact, iteration)

    def stop(self, leave: bool) -> None:
        """End the network thread; ``leave``: tell the cluster, so that it does not wait for us."""
        self._call(self._begin_to_stop, leave)
        self._thread.join(15.0)

    def status(self) -> dict[str, Any]:
        """How the cluster stands, as far as this peer knows."""
        if not self.entered.is_set():
            return {"me": self.me, "members": [self.me], "leader": None, "term": 0, "iteration": self.ledger.next, "ages": {}}
        now = time.monotonic()
        members = self.election.members
        return {
            "me": self.me,
            "members": members,
            "leader": self.election.leader,
            "term": self.election.term,
            "iteration": self.ledger.next,
            "best": self.best,
            "ages": {peer: now - self.last_word[peer] for peer in members if peer in self.last_word},
            "progress": dict(self.progress),
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
            self.news.put(Failed(error))
        finally:
            self._running = False

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._finished = asyncio.Event()
        self._file = LedgerFile(self.run, self.ledger)
        self.links = Links(self.tls, self.traffic, self._link_hello, self._connected, self._refused)
        server = await asyncio.start_server(Desk(self, self._server_tls).welcome, sock=self._listener)
        self._running = True
        try:
            if self.settings.join is None:
                self.cluster = secrets.token_hex(8)
                self._waits_until = time.monotonic() + PATIENCE
                self._enter([self.me], 0, newcomer=False)
            else:
                await self._join([self.settings.join], self.settings.join_timeout)
            await self._live()
        finally:
            self._running = False
            server.close()
            self.links.close()
            self.election.stop()
            self._file.close()

    def _enter(self, members: list[str], term: int, newcomer: bool) -> None:
        now = time.monotonic()
        self._known |= set(members)
        self.last_word |= {peer: now for peer in members if peer != self.me}
        self._leader_lost, self._told_lost, self._refusals = now, False, 0
        self.collector.begin(self.ledger.next)
        self.election.start(self, self.me, members, term, newcomer)
        self.entered.set()

    async def _live(self) -> None:
        ping = resend = 0.0
        leader: str | None = None
        while not self._finished.is_set():
            now = time.monotonic()
            self.election.tick()
            if self.election.leader != leader:
                leader = self.election.leader
                self._new_leader(leader)
                ping = resend = 0.0
            if now >= ping + PING:
                ping = now
                self.ping()
                self._bury(now)
                self._watch_majority(now)
            if now >= resend + RESEND:
                resend = now
                self._send_pending()
            self._decide()
            if self._refusals >= REFUSALS:
                await self._come_back()
            await asyncio.sleep(TICK)

    # what the election needs (Host)

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.links.send(peer, {"k": "election", "m": message})

    def _leader(self) -> str | None:
        return self.election.leader if self.entered.is_set() else None

    def position(self) -> tuple[int, bytes]:
        return self.ledger.next, self.ledger.head

    def wanted(self, peers: list[str]) -> None:
        self._known |= set(peers)
        self.links.want(set(peers) - {self.me})

    def commit(self, content: bytes) -> None:
        outcome, record = self.ledger.offer(content)
        if outcome is Outcome.APPLIED:
            assert record is not None
            self._file.append(content)
            self.best = record.best if self.best is None else max(self.best, record.best)
            leads = self._leader() == self.me
            self.news.put(Committed(record, self.ledger.head, leads, (self.traffic.sent, self.traffic.received)))
            self.collector.begin(self.ledger.next)
            if self.ledger.next >= self.settings.generations:
                self.ping()
        elif outcome is Outcome.GAP:
            self.fall_back(self.ledger.next + 1, b"", None)
        elif outcome is Outcome.INVALID:
            log.error("a committed record is none of this version: it is left out")
        elif outcome is Outcome.FORK:
            log.error("a committed record follows another history than ours: we take the leader's")
            self.fall_back(self.ledger.next, b"", self._leader())

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        if self.ledger.head_at(position) == head and head:
            return
        if self._fetching is None or self._fetching.done():
            self._fetching = self._loop.create_task(self._fetch(position, source), name="fetch")

    async def _fetch(self, position: int, source: str | None) -> None:
        """Fetch what we lack, from who has it, until it is there."""
        for attempt in range(60):
            others = [peer for peer in (source, self._leader(), *sorted(self.links.there)) if peer and peer != self.me]
            if others:
                peer = others[attempt % len(others)]
                try:
                    await self.fetch_from(peer.partition("@")[2])
                    if self.ledger.next >= position:
                        return
                except (RefusedError, ConnectionError) as error:
                    log.info("could not fetch iterations from %s: %s", peer, error)
            await asyncio.sleep(0.2)
        log.error("iterations before %d could not be fetched from anybody", position)

    async def fetch_from(self, address: str) -> dict[str, Any]:
        """Take what the peer at ``address`` has and we have not; what it says of its cluster."""
        hello = {**self.hello("fetch"), "next": self.ledger.next, "head": self.ledger.head}
        channel, answer = await dial(address, self.tls, self.traffic, hello, self.settings.join_timeout)
        try:
            await fetch(channel, self)
        finally:
            channel.close()
        return answer

    def replace(self, ledger: Ledger, snapshot: Snapshot | None) -> None:
        """Our history is another's: the worker begins again."""
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

    async def _join(self, addresses: list[str], timeout: float) -> None:
        """Fetch the history from any of the peers at ``addresses``, then ask the leader to be let in. Raises UserError."""
        deadline = time.monotonic() + timeout
        why = "no answer"
        attempt = 0
        while time.monotonic() < deadline and not self._finished.is_set():
            address = addresses[attempt % len(addresses)]
            attempt += 1
            try:
                answer = await self.fetch_from(address)
                self.cluster = str(answer["cluster"])
                if await self._ask_in(address):
                    count = len(self.election.members)
                    log.info("joined cluster %s of %d peers at iteration %d", self.cluster, count, self.ledger.next)
                    return
                why = "its cluster has no leader now"
            except RefusedError as refusal:
                raise UserError(f"cluster.join={address}: refused: {refusal}") from refusal
            except ConnectionError as error:
                why = str(error)
            await asyncio.sleep(0.3)
        if not self._finished.is_set():
            raise UserError(f"cluster.join={addresses[0]}: no peer could be joined in {timeout:g} s: {why}")

    async def _ask_in(self, address: str) -> bool:
        """Ask the leader, whom the peer at ``address`` knows, to let us in; False while nobody leads."""
        for _ in range(4):
            channel, answer = await dial(address, self.tls, self.traffic, self.hello("enter"), self.settings.join_timeout)
            try:
                if "members" in answer:
                    return await self._take_part(channel, answer)
            finally:
                channel.close()
            if not answer.get("leader"):
                break
            address = str(answer["leader"]).partition("@")[2]
        return False

    async def _take_part(self, channel: Channel, answer: dict[str, Any]) -> bool:
        """Begin before we are let in: our own word may be needed to commit it. Whether it was committed."""
        self._enter([str(peer) for peer in answer["members"]], int(answer["term"]), newcomer=True)
        heard = asyncio.ensure_future(channel.receive())
        try:
            for _ in range(round(ENTRY / TICK)):
                self.election.tick()
                await asyncio.wait([heard], timeout=TICK)
                if heard.done():
                    if heard.result().get("entered"):
                        return True
                    break
        except ConnectionError:
            pass
        heard.cancel()
        # committed or not: under this name we shall never be heard again
        self._withdraw()
        return False

    def _withdraw(self) -> None:
        """Take no part in the election any more, and give up the name."""
        self.entered.clear()
        self.election.stop()
        self.links.want(set())
        self.me = self._new_name()

    async def _come_back(self) -> None:
        """We were removed while we could not be heard: join again, as somebody new who happens to know the history."""
        log.warning("the cluster has removed this peer: it joins again")
        self._withdraw()
        addresses = sorted({peer.partition("@")[2] for peer in self._known if peer.partition("@")[2] != self.settings.address})
        await self._join(addresses, float("inf"))

    def _begin_to_stop(self, leave: bool) -> None:
        self._ending = self._loop.create_task(self._stop(leave), name="stop")

    async def _stop(self, leave: bool) -> None:
        try:
            if leave and self.entered.is_set() and len(self.election.members) > 1:
                await asyncio.wait_for(self._leave(), 4.0)
            elif not leave and self.entered.is_set():
                await asyncio.wait_for(self._linger(), 4.0)
        except (TimeoutError, RefusedError, ConnectionError) as error:
            log.info("left without a farewell: %s", error or type(error).__name__)
        self._finished.set()

    async def _leave(self) -> None:
        if self.election.leader == self.me:
            self.election.resign()
        while self.election.leader in (None, self.me):
            await asyncio.sleep(TICK)
        assert self.election.leader is not None
        address = self.election.leader.partition("@")[2]
        channel, _ = await dial(address, self.tls, self.traffic, self.hello("leave"), 4.0)
        channel.close()

    async def _linger(self) -> None:
        """Wait until those who are there have all iterations: their last ones may come from us."""
        while any(self.progress.get(peer, 0) < self.ledger.next for peer in self.links.there & set(self.election.members)):
            await asyncio.sleep(TICK)

    # links

    def _connected(self, peer: str, there: bool) -> None:
        log.info("%s %s", peer, "is connected" if there else "is gone")
        if there:
            self._refusals = 0
            self.links.send(peer, self._word())
        else:
            self.collector.forget(peer)
            self.progress.pop(peer, None)
        if self.entered.is_set():
            self.election.connected(peer, there)

    def _refused(self, peer: str, reason: str) -> None:
        if reason.startswith("removed"):
            self._refusals += 1
        else:
            log.warning("%s refuses us: %s", peer, reason)

    def heard(self, peer: str, message: dict[str, Any]) -> None:
        """A message of an authenticated peer of our cluster."""
        self.last_word[peer] = time.monotonic()
        kind = message.get("k")
        if kind == "election":
            if self.entered.is_set():
                self.election.receive(peer, message["m"])
                self.election.tick()
        elif kind == "report":
            self._report(peer, _report_of(message))
        elif kind == "ping":
            self.progress[peer] = int(message["next"])
            self.collector.progress(peer, int(message["at"]))

    def _word(self) -> dict[str, Any]:
        return {"k": "ping", "next": self.ledger.next, "at": self.working}

    def ping(self) -> None:
        for peer in self.links.there:
            self.links.send(peer, self._word())

    def _bury(self, now: float) -> None:
        """Drop connections that say nothing; as the leader, remove members that have said nothing for long."""
        for peer in self.links.there:
            if now - self.last_word.get(peer, now) > SILENT:
                self.links.drop(peer)
        if not self.election.can_commit:
            return
        for peer in self.election.members:
            if peer != self.me and now - self.last_word.setdefault(peer, now) > self.settings.grace:
                self.last_word[peer] = now
                log.warning("%s has said nothing for %g s: it is removed", peer, self.settings.grace)
                self.election.remove(peer, lambda done: None)

    def _watch_majority(self, now: float) -> None:
        if self.election.leader is not None and (self.election.leader != self.me or self.election.can_commit):
            self._leader_lost, self._told_lost = None, False
        elif self._leader_lost is None:
            self._leader_lost = now
        elif not self._told_lost and now - self._leader_lost > max(self.settings.grace, 5.0):
            self._told_lost = True
            log.warning(
                "no leader: %d of %d members answer, %d are needed. When the others are lost for good: "
                "neuro evolve cluster.from_run=%s cluster.force_new=true",
                len(self.links.there & set(self.election.members)) + 1,
                len(self.election.members),
                self.election.needed,
                self.run,
            )

    # scoring

    def _work_on(self, iteration: int) -> None:
        self.working = iteration
        self.collector.progress(self.me, iteration)

    def _submit(self, report: Report) -> None:
        self._pending = report
        self._send_pending()
        self._decide()

    def _send_pending(self) -> None:
        report = self._pending
        if report is None or not self.entered.is_set():
            return
        if report.scores.iteration < self.ledger.next - 1:
            self._pending = None
            return
        leader = self.election.leader
        if leader == self.me:
            self._report(self.me, report)
        elif leader is not None:
            self.links.send(leader, _message_of(report))

    def _report(self, peer: str, report: Report) -> None:
        if self.election.leader != self.me:
            return  # whoever sent it will hear of the new leader and send it there
        if not self.collector.take(peer, report, time.monotonic()):
            log.info("a report of %s on iteration %d came too late", peer, report.scores.iteration)
        self._decide()

    def _decide(self) -> None:
        """As the leader, when all have reported: propose the iteration."""
        if not self.entered.is_set() or not self.election.can_commit or self.ledger.next >= self.settings.generations:
            return
        now = time.monotonic()
        if self._waits_until is not None:
            if len(self.links.there) + 1 < self.settings.begin_with and now < self._waits_until:
                return
            self._waits_until = None
        iteration, since = self._proposed
        if self.collector.iteration != self.ledger.next or (iteration == self.ledger.next and now < since + 1.0):
            return
        if not self.collector.ready(self.links.there | {self.me}, now):
            return
        missing = self.collector.awaited(self.links.there | {self.me})
        if missing:
            log.info("iteration %d goes on without %s", self.ledger.next, ", ".join(sorted(missing)))
        self._proposed = (self.ledger.next, now)
        self.election.propose(encoded(self._record()))
        self.election.tick()

    def _record(self) -> Record:
        reports = self.collector.all_reports()
        steps = self._selection.choose([report.scores for report in reports], self._sigma)
        members = sum(report.members for report in reports)
        sides = [report.side for report in reports if len(report.side)]
        return Record(
            iteration=self.ledger.next,
            term=self.election.term,
            peers=len(reports),
            members=members,
            best=max(float(report.scores.fitness.max()) for report in reports),
            mean=sum(report.total for report in reports) / members,
            late=self.collector.too_late,
            parent=self.ledger.head[:8],
            steps=tuple(steps),
            side=np.sum(sides, axis=0) if sides else np.empty(0),
        )

    def _new_leader(self, leader: str | None) -> None:
        log.info("leader is %s in term %d", leader or "nobody", self.election.term)
        self._proposed = (-1, 0.0)
        if leader == self.me:
            now = time.monotonic()
            self.last_word |= {peer: now for peer in self.election.members if peer != self.me}
            self.collector.begin(self.ledger.next)

    def _compact(self, iteration: int) -> None:
        self.ledger.compact(iteration)
        self._file.close()
        self._file.rewrite(self.ledger)
        log.info("the ledger is compacted: a snapshot up to iteration %d, and %d records", iteration, len(self.ledger.records))


def _message_of(report: Report) -> dict[str, Any]:
    scores = report.scores
    return {
        "k": "report",
        "i": scores.iteration,
        "m": scores.first,
        "f": scores.fitness.astype("<f4").tobytes(),
        "n": report.members,
        "t": report.total,
        "s": report.side.astype("<f8").tobytes(),
    }


def _report_of(message: dict[str, Any]) -> Report:
    fitness = np.frombuffer(message["f"], "<f4")
    if not len(fitness) or not np.isfinite(fitness).all():
        raise ConnectionError("a report without fitnesses")
    scores = Scores(int(message["i"]), int(message["m"]), fitness)
    return Report(scores, int(message["n"]), float(message["t"]), np.frombuffer(message["s"], "<f8"))
