"""Who knocks at a peer: authenticated by TLS, looked over here, then let through or told why not."""

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any

from neuro_cli.evolve.channel import Channel
from neuro_cli.evolve.history import serve
from neuro_cli.evolve.identity import FORMAT, canonical, difference
from neuro_cli.evolve.ledger import origin

if TYPE_CHECKING:
    from neuro_cli.evolve.node import Node

log = logging.getLogger(__name__)

HANDSHAKE = 5.0  # seconds for a newcomer to show the secret and say what it wants


class Desk:
    """Serves the connections that others open."""

    def __init__(self, node: "Node", tls: ssl.SSLContext) -> None:
        self._node, self._tls = node, tls

    async def welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from the first byte to its end."""
        channel = Channel(reader, writer, self._node.traffic)
        address = channel.address
        hello: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(HANDSHAKE):
                await writer.start_tls(self._tls)
                hello = await channel.receive()
            await self._serve(channel, hello)
        except asyncio.CancelledError:
            pass  # this peer ends
        except (ssl.SSLError, ConnectionError, TimeoutError) as error:
            # whoever cannot finish the handshake may be noticed by its alert, by a reset or by silence, as the race goes
            if hello is None:
                why = "it does not know the cluster's secret, is no peer or was cut off"
                log.warning("refused %s: %s (%s)", address, why, _short(error))
            else:
                log.debug("%s: %s", address, error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            log.warning("%s sent what is no message of this version: %r", channel.peer or address, error)
        finally:
            writer.close()

    async def _serve(self, channel: Channel, hello: dict[str, Any]) -> None:
        node = self._node
        purpose, peer = hello.get("for"), str(hello.get("peer"))
        refusal = self._refusal(hello, peer)
        if refusal is not None:
            if not refusal.startswith("removed"):
                log.warning("refused %s (%s): %s", channel.address, peer, refusal)
            channel.send({"refused": refusal})
            await channel.drain()
            return
        channel.peer = peer
        if purpose == "link":
            channel.send({"ok": True})
            await self._listen(channel)
        elif purpose == "fetch":
            if not node.cluster:
                return  # joining ourselves: ask again
            channel.send({"cluster": node.cluster})
            first = origin(canonical(node.identity))
            await serve(channel, node.ledger, int(hello["next"]), bytes(hello["head"]), first, node.snapshot)
        elif purpose in ("enter", "leave"):
            await self._change(channel, purpose)
        elif purpose == "status":
            channel.send({**node.status(), "head": node.ledger.head, "cluster": node.cluster})
        else:
            channel.send({"refused": f"no such purpose: {purpose}"})
        await channel.drain()

    def _refusal(self, hello: dict[str, Any], peer: str) -> str | None:
        """Why not, or None. What a newcomer is of is compared key by key, so that the answer names the key."""
        node = self._node
        if hello.get("format") != FORMAT:
            return f"this cluster speaks {FORMAT!r}, the newcomer {hello.get('format')!r}"
        if hello.get("for") == "link":
            if hello.get("cluster") != node.cluster:
                return "it belongs to another cluster"
            election = node.election
            if node.entered.is_set() and election.can_commit and peer not in election.members and election.name == "raft":
                return "removed: it is no member any more"
            return None
        if hello.get("for") == "status":
            return None
        return difference(node.identity, hello.get("identity"))

    async def _listen(self, channel: Channel) -> None:
        """What a connected peer says, until the connection ends."""
        while True:
            self._node.heard(channel.peer, await channel.receive())

    async def _change(self, channel: Channel, purpose: str) -> None:
        """Let a peer in or out, if we lead; else say who does."""
        node, peer = self._node, channel.peer
        if not node.entered.is_set() or not node.election.can_commit:
            leader = node.election.leader if node.entered.is_set() else None
            channel.send({"leader": leader if leader != node.me else None})
            return
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(outcome: bool) -> None:
            if not done.done():
                done.set_result(outcome)

        enters = purpose == "enter"
        if enters:
            node.presence.heard(peer)
            channel.send({"members": sorted({*node.election.members, peer}), "term": node.election.term})
            await channel.drain()
        (node.election.add if enters else node.election.remove)(peer, settle)
        outcome = await asyncio.wait_for(done, 10.0)
        channel.send({"entered": outcome} if enters else {"left": outcome})
        if outcome:
            log.info("%s %s", peer, "has entered" if enters else "has left")


def _short(error: BaseException) -> str:
    return getattr(error, "reason", None) or type(error).__name__
