"""How a peer comes into a cluster, comes back when it was removed, and leaves."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.channel import Channel, RefusedError, dial

if TYPE_CHECKING:
    from neuro_cli.evolve.node import Node

log = logging.getLogger(__name__)

TICK = 0.02  # seconds
ENTRY = 10.0  # seconds in which a newcomer is let in, or asks again


class Entrance:
    """Joins and leaves for a node, on its thread."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def join(self, addresses: list[str], timeout: float) -> None:
        """Fetch the history from any of the peers at ``addresses``, then ask the leader to be let in. Raises UserError."""
        deadline = time.monotonic() + timeout
        why = "no answer"
        attempt = 0
        while time.monotonic() < deadline and not self._node.finished.is_set():
            address = addresses[attempt % len(addresses)]
            attempt += 1
            try:
                answer = await self._node.catch_up.fetch_from(address)
                self._node.cluster = str(answer["cluster"])
                if await self._ask_in(address):
                    count = len(self._node.election.members)
                    log.info("joined cluster %s of %d peers at iteration %d", self._node.cluster, count, self._node.ledger.next)
                    return
                why = "its cluster has no leader now"
            except RefusedError as refusal:
                raise UserError(f"cluster.join={address}: refused: {refusal}") from refusal
            except ConnectionError as error:
                why = str(error)
            await asyncio.sleep(0.3)
        if not self._node.finished.is_set():
            raise UserError(f"cluster.join={addresses[0]}: no peer could be joined in {timeout:g} s: {why}")

    async def _ask_in(self, address: str) -> bool:
        """Ask the leader, whom the peer at ``address`` knows, to let us in; False while nobody leads."""
        for _ in range(4):
            channel, answer = await dial(
                address, self._node.tls, self._node.traffic, self._node.hello("enter"), self._node.settings.join_timeout
            )
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
        self._node.enter([str(peer) for peer in answer["members"]], int(answer["term"]), newcomer=True)
        heard = asyncio.ensure_future(channel.receive())
        try:
            for _ in range(round(ENTRY / TICK)):
                self._node.election.tick()
                await asyncio.wait([heard], timeout=TICK)
                if heard.done():
                    if heard.result().get("entered"):
                        return True
                    break
        except ConnectionError:
            pass
        heard.cancel()
        # committed or not: under this name we shall never be heard again
        self._node.withdraw()
        return False

    async def come_back(self) -> None:
        """We were removed while we could not be heard: join again, as somebody new who happens to know the history."""
        log.warning("the cluster has removed this peer: it joins again")
        self._node.withdraw()
        addresses = sorted(
            {peer.partition("@")[2] for peer in self._node.known if peer.partition("@")[2] != self._node.settings.address}
        )
        await self.join(addresses, float("inf"))

    async def leave(self) -> None:
        if self._node.election.leader == self._node.me:
            self._node.election.resign()
        while self._node.election.leader in (None, self._node.me):
            await asyncio.sleep(TICK)
        assert self._node.election.leader is not None
        address = self._node.election.leader.partition("@")[2]
        channel, _ = await dial(address, self._node.tls, self._node.traffic, self._node.hello("leave"), 4.0)
        channel.close()

    async def linger(self) -> None:
        """Wait until those who are there have all iterations: their last ones may come from us."""
        while any(
            self._node.presence.progress.get(peer, 0) < self._node.ledger.next
            for peer in self._node.links.there & set(self._node.election.members)
        ):
            await asyncio.sleep(TICK)
