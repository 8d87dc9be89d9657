"""Membership of a peer: joins a cluster, learns that it was removed, joins again, and leaves."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.channel import Channel, RefusedError
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import MalformedError, address_of, checked
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.evolve.state_transfer import StateTransfer

log = logging.getLogger(__name__)

TICK = 0.02  # seconds between two looks at the outcome
ENTRY = 10.0  # seconds before a newcomer that is not admitted asks again
END = 4.0  # seconds before leaving, or waiting for the others, is given up
REFUSALS = 3  # reports of a removal after which a peer believes it
LEADER_SILENT = 2.0  # pings without a message of the leader, before members may report our removal


class RemovalDetector:
    """Counter of reports that a node is no longer a member, on the network thread."""

    def __init__(self, state: PeerState, heartbeat: Heartbeat) -> None:
        self._state, self._heartbeat = state, heartbeat
        self._count = 0
        self._silence = LEADER_SILENT * heartbeat.interval
        self._refused = RateLimitedLog(log, 10)

    @property
    def detected(self) -> bool:
        return self._count >= REFUSALS

    def clear(self) -> None:
        """Forget earlier reports: this peer is a member, or connected with one, now."""
        self._count = 0

    def reported(self, leader: str) -> None:
        """Count a member's report that ``leader`` leads a cluster without this peer."""
        self._state.met.add(leader)
        self._count += 1

    def refused(self, peer: str, reason: str) -> None:
        """Count, or log, that ``peer`` has refused our connection."""
        if not reason.startswith("removed"):
            self._refused.say(f"{peer} refuses us: {reason}")
        elif not self._led():
            self._count += 1

    def _led(self) -> bool:
        """Return whether this peer leads, or has just heard its leader: then a report of its removal is out of date."""
        leader = self._state.leader
        heard = self._heartbeat.last_heard.get(leader or "", float("-inf"))
        return (leader == self._state.me and self._state.election.can_commit) or time.monotonic() - heard < self._silence


class Membership:
    """Joins and leaves for a node, on the network thread.

    ``enter(members, term, newcomer)`` takes part in the election, ``withdraw`` ends that; ``finished`` is set when the node ends.
    """

    def __init__(
        self,
        state: PeerState,
        connections: Connections,
        ledger: PeerLedger,
        heartbeat: Heartbeat,
        removal: RemovalDetector,
        transfer: StateTransfer,
        finished: asyncio.Event,
        enter: Callable[[list[str], int, bool], None],
        withdraw: Callable[[], None],
    ) -> None:
        self._state, self._connections, self._ledger, self._heartbeat = state, connections, ledger, heartbeat
        self._removal, self._transfer, self._finished = removal, transfer, finished
        self._enter, self._withdraw = enter, withdraw

    async def join(self, addresses: list[str], timeout: float = float("inf")) -> None:
        """Fetch the history from any of the peers at ``addresses``, then ask the leader for admission.

        Raises UserError when that fails for ``timeout`` seconds, or at once when a peer refuses us; without a ``timeout`` the
        next peer is tried instead.
        """
        deadline = time.monotonic() + timeout
        why = "no answer"
        attempt = 0
        while time.monotonic() < deadline and not self._finished.is_set():
            address = addresses[attempt % len(addresses)]
            attempt += 1
            try:
                answer = await self._transfer.fetch_from(address)
                if self._state.entered.is_set() and self._state.cluster != answer["cluster"]:
                    self._withdraw()
                self._state.cluster = answer["cluster"]
                if await self._ask_in(address):
                    self._removal.clear()
                    count = len(self._state.election.members)
                    log.info("joined cluster %s of %d peers at iteration %d", self._state.cluster, count, self._ledger.next)
                    return
                why = "its cluster has no leader now"
            except RefusedError as refusal:
                why = f"refused: {refusal}"
                if timeout < float("inf"):
                    raise UserError(f"cluster.join={address}: {why}") from refusal
            except ConnectionError as error:
                why = str(error)
            await asyncio.sleep(0.3)
        if not self._finished.is_set():
            raise UserError(f"cluster.join={addresses[0]}: no peer could be joined in {timeout:g} s: {why}")

    async def _ask_in(self, peer: str) -> bool:
        """Ask ``peer`` (a name, or HOST:PORT), or the leader that it names, for admission. False while no leader exists."""
        state = self._state
        for _ in range(4):
            channel, answer = await state.dial(peer, state.hello("enter"), ("members", "leader"), state.settings.join_timeout)
            try:
                if answer["k"] == "members":
                    return await self._take_part(channel, answer)
            finally:
                channel.close()
            if answer["leader"] is None:
                break
            peer = answer["leader"]
        return False

    async def _take_part(self, channel: Channel, answer: dict[str, Any]) -> bool:
        """Vote before we are admitted, since our vote may be needed to commit that. Returns whether it was committed. If that is
        unknown, this peer continues to vote under the same name, and asks again: the entry that makes it a member may be in
        others' logs, and without its vote they could lack a majority.
        """
        if self._state.me not in answer["members"]:
            raise MalformedError("members without the newcomer")
        if not self._state.entered.is_set():
            self._enter(answer["members"], answer["term"], True)
        heard = asyncio.ensure_future(channel.receive())
        try:
            for _ in range(round(ENTRY / TICK)):
                self._state.election.tick()
                await asyncio.wait([heard], timeout=TICK)
                if heard.done():
                    if checked(heard.result(), "entered")["entered"]:
                        return True
                    break
        except ConnectionError:
            pass
        heard.cancel()
        return False

    async def rejoin(self) -> None:
        """Join again after the cluster has removed us, under a new name and with our history."""
        log.warning("the cluster has removed this peer: it joins again")
        self._withdraw()
        # addresses, since the others may have new names too
        addresses = sorted({address_of(peer) for peer in self._state.met} - {self._state.address})
        await self.join(addresses)

    async def end(self, leave: bool) -> None:
        """Leave, or (``leave`` false) :meth:`linger`; either is given up after a few seconds."""
        try:
            if not leave:
                await asyncio.wait_for(self.linger(), END)
            elif len(self._state.election.members) > 1:
                await asyncio.wait_for(self.leave(), END)
        except (TimeoutError, RefusedError, ConnectionError) as error:
            log.info("left without a farewell: %s", error or type(error).__name__)

    async def leave(self) -> None:
        """Remove this peer from the cluster: itself if it leads and can, else by asking the leader."""
        election, me, removed = self._state.election, self._state.me, asyncio.Event()
        if election.leader == me:
            election.resign(removed.set)
        while (leader := election.leader) in (None, me) and not removed.is_set():
            await asyncio.sleep(TICK)
        if leader is None or removed.is_set():
            return
        channel, _ = await self._state.dial(leader, self._state.hello("leave"), ("left", "leader"), END)
        channel.close()

    async def linger(self) -> None:
        """Wait until all connected members have all iterations, since they may fetch the last ones from us."""
        while any(
            self._heartbeat.progress.get(peer, 0) < self._ledger.next
            for peer in self._connections.connected & set(self._state.election.members)
        ):
            await asyncio.sleep(TICK)
