"""Membership of a peer: joins a cluster, rejoins it after a removal, and leaves."""

import asyncio
import logging
import ssl
import threading
import time
from typing import Any, Protocol

from neuro_cli.core.errors import UserError
from neuro_cli.election.base import Election
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.removal import RemovalDetector
from neuro_cli.evolve.network.channel import Channel, ChannelTraffic, RefusedError, dial
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import MalformedError, checked
from neuro_cli.evolve.network.names import address_of
from neuro_cli.evolve.settings import Settings
from neuro_cli.evolve.state_transfer import StateTransfer

log = logging.getLogger(__name__)

TICK = 0.02  # seconds
ENTRY = 10.0  # seconds in which a newcomer is admitted, or asks again
END = 4.0  # seconds in which leaving, or waiting for the others, must succeed


class MembershipNode(Protocol):
    """Part of a node that joining and leaving need. ``known``: names of peers met so far; ``finished``: set when it stops."""

    me: str
    cluster: str
    known: set[str]
    settings: Settings
    election: Election
    connections: Connections
    heartbeat: Heartbeat
    removal: RemovalDetector
    state_transfer: StateTransfer
    traffic: ChannelTraffic
    entered: threading.Event
    finished: asyncio.Event

    @property
    def ledger(self) -> Ledger: ...

    def tls(self) -> ssl.SSLContext: ...

    def hello(self, purpose: str) -> dict[str, Any]: ...

    def enter(self, members: list[str], term: int, newcomer: bool) -> None: ...

    def withdraw(self) -> None: ...


class Membership:
    """Joins and leaves for a node, on the network thread."""

    def __init__(self, node: MembershipNode) -> None:
        self._node = node

    async def join(self, addresses: list[str], timeout: float = float("inf")) -> None:
        """Fetch the history from any of the peers at ``addresses``, then ask the leader for admission.

        Raises UserError when that fails for ``timeout`` seconds, or at once when a peer refuses us; without a ``timeout`` the
        next peer is tried instead.
        """
        deadline = time.monotonic() + timeout
        why = "no answer"
        attempt = 0
        while time.monotonic() < deadline and not self._node.finished.is_set():
            address = addresses[attempt % len(addresses)]
            attempt += 1
            try:
                answer = await self._node.state_transfer.fetch_from(address)
                if self._node.entered.is_set() and self._node.cluster != answer["cluster"]:
                    self._node.withdraw()
                self._node.cluster = answer["cluster"]
                if await self._ask_in(address):
                    self._node.removal.clear()
                    count = len(self._node.election.members)
                    log.info("joined cluster %s of %d peers at iteration %d", self._node.cluster, count, self._node.ledger.next)
                    return
                why = "its cluster has no leader now"
            except RefusedError as refusal:
                why = f"refused: {refusal}"
                if timeout < float("inf"):
                    raise UserError(f"cluster.join={address}: {why}") from refusal
            except ConnectionError as error:
                why = str(error)
            await asyncio.sleep(0.3)
        if not self._node.finished.is_set():
            raise UserError(f"cluster.join={addresses[0]}: no peer could be joined in {timeout:g} s: {why}")

    async def _ask_in(self, peer: str) -> bool:
        """Ask ``peer`` (a name, or HOST:PORT), or the leader that it names, for admission; False while there is no leader."""
        node = self._node
        for _ in range(4):
            channel, answer = await dial(
                peer, node.tls(), node.traffic, node.hello("enter"), ("members", "leader"), node.settings.join_timeout
            )
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
        """Take part before we are admitted, since our vote may be needed to commit that. Returns whether it was committed.

        Where that is unknown we keep taking part, under the same name, and ask again: the entry that makes us a member may
        be in others' logs, and without our vote they could lack a majority.
        """
        if self._node.me not in answer["members"]:
            raise MalformedError("members without the newcomer")
        if not self._node.entered.is_set():
            self._node.enter(answer["members"], answer["term"], newcomer=True)
        heard = asyncio.ensure_future(channel.receive())
        try:
            for _ in range(round(ENTRY / TICK)):
                self._node.election.tick()
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
        """Join again after the cluster has removed us, under a new name and with the history that we have."""
        log.warning("the cluster has removed this peer: it joins again")
        self._node.withdraw()
        # by address: they may have new names too
        addresses = sorted({address_of(peer) for peer in self._node.known} - {self._node.settings.address})
        await self.join(addresses)

    async def end(self, leave: bool) -> None:
        """Leave, or (``leave`` false) :meth:`linger`; either is given up after a few seconds."""
        try:
            if not leave:
                await asyncio.wait_for(self.linger(), END)
            elif len(self._node.election.members) > 1:
                await asyncio.wait_for(self.leave(), END)
        except (TimeoutError, RefusedError, ConnectionError) as error:
            log.info("left without a farewell: %s", error or type(error).__name__)

    async def leave(self) -> None:
        if self._node.election.leader == self._node.me:
            self._node.election.resign()
        while self._node.election.leader in (None, self._node.me):
            await asyncio.sleep(TICK)
        node, leader = self._node, self._node.election.leader
        assert leader is not None
        channel, _ = await dial(leader, node.tls(), node.traffic, node.hello("leave"), ("left", "leader"), 4.0)
        channel.close()

    async def linger(self) -> None:
        """Wait until all connected members have all iterations, since they may fetch the last ones from us."""
        while any(
            self._node.heartbeat.progress.get(peer, 0) < self._node.ledger.next
            for peer in self._node.connections.connected & set(self._node.election.members)
        ):
            await asyncio.sleep(TICK)
