"""How a peer comes by the iterations that it lacks: from whoever has them, until they are there."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from neuro_cli.evolve.channel import RefusedError, dial
from neuro_cli.evolve.history import fetch

if TYPE_CHECKING:
    from neuro_cli.evolve.node import Node

log = logging.getLogger(__name__)

ATTEMPTS, PAUSE = 60, 0.2  # how often others are asked, and seconds between


class CatchUp:
    """Fetches for a node, on its thread; one fetch at a time."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None

    def begin(self, position: int, source: str | None) -> None:
        """Fetch what we lack of the first ``position`` iterations, from ``source`` if that is known to have them."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._fetch(position, source), name="fetch")

    async def _fetch(self, position: int, source: str | None) -> None:
        node = self._node
        for attempt in range(ATTEMPTS):
            others = [peer for peer in (source, node.leader(), *sorted(node.links.there)) if peer and peer != node.me]
            if others:
                peer = others[attempt % len(others)]
                try:
                    await self.fetch_from(peer)
                    if node.ledger.next >= position:
                        return
                except (RefusedError, ConnectionError) as error:
                    log.info("could not fetch iterations from %s: %s", peer, error)
            await asyncio.sleep(PAUSE)
        log.error("iterations before %d could not be fetched from anybody", position)

    async def fetch_from(self, peer: str) -> dict[str, Any]:
        """Take what a peer (a name, or HOST:PORT) has and we have not; what it says of its cluster."""
        node = self._node
        hello = {**node.hello("fetch"), "next": node.ledger.next, "head": node.ledger.head}
        channel, answer = await dial(peer, node.tls(), node.traffic, hello, ("cluster",), node.settings.join_timeout)
        try:
            await fetch(channel, node)
        finally:
            channel.close()
        return answer
