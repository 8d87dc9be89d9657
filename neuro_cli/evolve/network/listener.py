"""Accepts incoming connections, authenticates peers by TLS, and serves them or refuses with a reason."""

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any, Protocol

from neuro_cli.election.base import Election
from neuro_cli.evolve.dispatch import Dispatch
from neuro_cli.evolve.identity import FORMAT, difference
from neuro_cli.evolve.ledger.ledger import Ledger
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.members.status import status_of
from neuro_cli.evolve.network.admission import Admission
from neuro_cli.evolve.network.channel import Channel, ChannelTraffic
from neuro_cli.evolve.network.messages import PURPOSES, Limits, MalformedError, checked, printable, shown
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.network.tls import Credentials
from neuro_cli.evolve.peer_ledger import PeerLedger
from neuro_cli.evolve.state_transfer import Snapshot, serve

log = logging.getLogger(__name__)

HANDSHAKE = 5.0  # seconds for a newcomer to show the secret and say what it wants
LINES = 10  # per minute, about peers that know the secret


class ListenerNode(Protocol):
    """Part of a node that its listener needs. ``snapshot``: gives the newest snapshot of the model."""

    me: str
    cluster: str
    identity: dict[str, Any]
    credentials: Credentials
    limits: Limits
    election: Election
    dispatch: Dispatch
    heartbeat: Heartbeat
    peer_ledger: PeerLedger
    traffic: ChannelTraffic
    entered: threading.Event
    snapshot: Callable[[], Snapshot | None]

    @property
    def ledger(self) -> Ledger: ...


class Listener:
    """Serves incoming connections of a node, on the network thread."""

    def __init__(self, node: ListenerNode) -> None:
        self._node = node
        self.admission = Admission()
        self._strangers, self._refused, self._malformed = (
            RateLimitedLog(log),
            RateLimitedLog(log, LINES),
            RateLimitedLog(log, LINES),
        )

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, from the first byte to its end."""
        channel = Channel(reader, writer, self._node.traffic)
        address = channel.address
        identifier = ""
        try:
            with self.admission.stranger(channel):
                async with asyncio.timeout(HANDSHAKE):
                    await channel.secure(self._node.credentials.server)
                    identifier = channel.identifier
                    hello = await channel.receive()
            with self.admission.known(channel, identifier):
                await self._serve(channel, hello)
        except asyncio.CancelledError:
            pass  # this peer ends
        except MalformedError as error:
            self._malformed.say(f"{channel.peer or address} sent what is no message of this version: {error}")
        except (ssl.SSLError, ConnectionError, TimeoutError) as error:
            # a failed handshake shows as an alert, a reset or silence, depending on timing
            if not identifier:
                why = "it does not know the cluster's secret, is no peer or was cut off"
                self._strangers.say(f"refused {address}: {why} ({_short(error)})")
            else:
                log.debug("%s: %s", address, error)
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # of an election
            self._malformed.say(f"{channel.peer or address} sent what is no message of this version: {shown(repr(error))}")
        finally:
            writer.close()

    def log_refusals(self, at_once: bool = False) -> None:
        """Log the number of refusals that were not logged yet."""
        for lines in (self._strangers, self._refused, self._malformed):
            lines.due(at_once)

    async def _serve(self, channel: Channel, hello: dict[str, Any]) -> None:
        node = self._node
        refusal = self._refusal(channel, hello)
        if refusal is not None:
            if not refusal.startswith("removed"):
                self._refused.say(f"refused {channel.address} ({shown(hello.get('peer'))}): {refusal}")
            channel.send({"k": "refused", "refused": refusal})
            await channel.drain()
            return
        purpose, channel.peer = hello["for"], hello["peer"]
        if purpose == "link":
            channel.send({"k": "ok"})
            channel.most = node.limits.message
            await self._listen(channel)
        elif purpose == "fetch":
            if not node.cluster:
                return  # joining ourselves: ask again
            channel.send({"k": "cluster", "cluster": node.cluster})
            await serve(channel, node.ledger, hello["next"], hello["head"], node.limits.origin, node.snapshot)
        elif purpose == "leader":
            word = node.election.word() if node.entered.is_set() else None
            channel.send({"k": "leader", "leader": None} if word is None else {"k": "word", "peer": node.me, "m": word})
        elif purpose == "status":
            channel.send({"k": "status", **status_of(node), "head": node.ledger.head, "cluster": node.cluster})
        else:
            await self._change(channel, purpose)
        await channel.drain()

    def _refusal(self, channel: Channel, hello: dict[str, Any]) -> str | None:
        """Reason to refuse ``hello``, or None. A newcomer's identity is compared key by key, so that the reason names the key.

        Raises MalformedError for any other message.
        """
        node = self._node
        if hello.get("k") == "hello" and hello.get("format") != FORMAT:
            return f"this cluster speaks {FORMAT!r}, the newcomer {shown(hello.get('format'))!r}"
        purpose, peer = checked(hello, *PURPOSES)["for"], hello["peer"]
        if purpose == "status":
            return None
        if peer.partition("@")[0] != channel.identifier:
            return "it speaks under the name of another: its key is not that of the name"
        if purpose in ("link", "leader"):
            if hello["cluster"] != node.cluster:
                return "it belongs to another cluster"
            election = node.election
            if node.entered.is_set() and election.can_commit and peer not in election.members and election.name == "raft":
                return "removed: it is no member any more"
            return None
        return difference(node.identity, hello["identity"])

    async def _listen(self, channel: Channel) -> None:
        """Receive the messages of a connected peer, until the connection ends."""
        while True:
            self._node.dispatch.received(channel.peer, await channel.receive())

    async def _change(self, channel: Channel, purpose: str) -> None:
        """Add or remove a peer if we lead; else answer with the leader."""
        node, peer = self._node, channel.peer
        if not node.entered.is_set() or not node.election.can_commit:
            leader = node.election.leader if node.entered.is_set() else None
            channel.send({"k": "leader", "leader": leader if leader != node.me else None})
            return
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(outcome: bool) -> None:
            if not done.done():
                done.set_result(outcome)

        enters = purpose == "enter"
        if enters:
            node.heartbeat.heard(peer)
            channel.send({"k": "members", "members": sorted({*node.election.members, peer}), "term": node.election.term})
            await channel.drain()
        (node.election.add if enters else node.election.remove)(peer, settle)
        outcome = await asyncio.wait_for(done, 10.0)
        channel.send({"k": "entered", "entered": outcome} if enters else {"k": "left", "left": outcome})
        if outcome:
            log.info("%s %s", peer, "has entered" if enters else "has left")


def _short(error: BaseException) -> str:
    return printable(getattr(error, "reason", None) or type(error).__name__, 100)
