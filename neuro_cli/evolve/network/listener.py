"""Incoming connections: peers are authenticated by TLS, and served or refused with a reason."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuro_cli.election.fields import printable, shown
from neuro_cli.evolve.collector import report_of
from neuro_cli.evolve.identity import FORMAT, difference
from neuro_cli.evolve.leader import Leader
from neuro_cli.evolve.members.heartbeat import Heartbeat
from neuro_cli.evolve.network.channel import Channel
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import ON_A_LINK, PURPOSES, MalformedError, checked
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.evolve.peer_ledger import PeerLedger, Snapshot
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.evolve.state_transfer import serve

STRANGERS, OF_ONE, ALL = 64, 8, 512  # most connections of strangers, of one key, and in all

log = logging.getLogger(__name__)

HANDSHAKE = 5.0  # seconds for a newcomer to prove the secret and send its first message
LINES = 10  # log lines a minute about peers that know the secret


class Listener:
    """Server of a node's incoming connections, on the network thread."""

    def __init__(
        self,
        state: PeerState,
        connections: Connections,
        ledger: PeerLedger,
        heartbeat: Heartbeat,
        leader: Leader,
        snapshot: Callable[[], Snapshot | None],
    ) -> None:
        self._state, self._connections, self._ledger = state, connections, ledger
        self._heartbeat, self._leader, self._snapshot = heartbeat, leader, snapshot
        self.admission = Admission()
        self._strangers = RateLimitedLog(log)
        self._refused, self._malformed = RateLimitedLog(log, LINES), RateLimitedLog(log, LINES)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, from the first byte to its end."""
        channel = Channel(reader, writer, self._state.traffic)
        address = channel.address
        identifier = ""
        try:
            with self.admission.counted(channel):
                async with asyncio.timeout(HANDSHAKE):
                    await channel.secure(self._state.credentials.server)
                    identifier = channel.identifier
                    hello = await channel.receive()
            with self.admission.counted(channel, identifier):
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
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # raised by an election
            self._malformed.say(f"{channel.peer or address} sent what is no message of this version: {shown(repr(error))}")
        finally:
            writer.close()

    def log_refusals(self, at_once: bool = False) -> None:
        """Log the number of refusals that have not been logged yet."""
        for lines in (self._strangers, self._refused, self._malformed):
            lines.due(at_once)

    async def _serve(self, channel: Channel, hello: dict[str, Any]) -> None:
        state, limits = self._state, self._ledger.limits
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
            channel.most = limits.message
            await self._listen(channel)
        elif purpose == "fetch":
            if not state.cluster:
                return  # this peer is joining itself: the other asks again
            channel.send({"k": "cluster", "cluster": state.cluster})
            await serve(channel, self._ledger.ledger, hello["next"], hello["head"], limits.origin, self._snapshot)
        elif purpose == "leader":
            word = state.election.word() if state.entered.is_set() else None
            channel.send({"k": "leader", "leader": None} if word is None else {"k": "word", "peer": state.me, "m": word})
        else:
            await self._change(channel, purpose)
        await channel.drain()

    def _refusal(self, channel: Channel, hello: dict[str, Any]) -> str | None:
        """Return the reason to refuse ``hello``, or None. Identities are compared key by key, so that the reason names the key.

        Raises MalformedError for any other message.
        """
        state = self._state
        if hello.get("k") == "hello" and hello.get("format") != FORMAT:
            return f"this cluster speaks {FORMAT!r}, the newcomer {shown(hello.get('format'))!r}"
        purpose, peer = checked(hello, *PURPOSES)["for"], hello["peer"]
        if peer.partition("@")[0] != channel.identifier:
            return "it speaks under the name of another: its key is not that of the name"
        if purpose in ("link", "leader"):
            if hello["cluster"] != state.cluster:
                return "it belongs to another cluster"
            election = state.election
            if state.entered.is_set() and election.can_commit and peer not in election.members and election.name == "raft":
                return "removed: it is no member any more"
            return None
        return difference(state.identity, hello["identity"])

    async def _listen(self, channel: Channel) -> None:
        """Receive the messages of a connected peer, until the connection ends."""
        while True:
            self.received(channel.peer, await channel.receive())

    def received(self, peer: str, message: dict[str, Any]) -> None:
        """Take a message of an authenticated peer of our cluster. Raises MalformedError, and errors of the election."""
        kind = checked(message, *ON_A_LINK)["k"]
        is_member = peer in self._connections.wanted
        if is_member:
            self._heartbeat.heard(peer)
        if kind == "election":
            if self._state.entered.is_set():
                self._state.election.receive(peer, message["m"])
                self._state.election.tick()
        elif not is_member:
            return  # not a member as far as we know; the sender repeats this
        elif kind in ("report", "sequence"):
            self._leader.take(peer, report_of(peer, message, self._ledger.limits))
        else:
            self._heartbeat.progress[peer] = message["next"]
            self._leader.collector.progress(peer, message["at"])

    async def _change(self, channel: Channel, purpose: str) -> None:
        """Add or remove a peer as the leader; else answer with the leader's name."""
        state, election, peer = self._state, self._state.election, channel.peer
        if not state.entered.is_set() or not election.can_commit:
            channel.send({"k": "leader", "leader": state.leader if state.leader != state.me else None})
            return
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(outcome: bool) -> None:
            if not done.done():
                done.set_result(outcome)

        enters = purpose == "enter"
        if enters:
            self._heartbeat.heard(peer)
            channel.send({"k": "members", "members": sorted({*election.members, peer}), "term": election.term})
            await channel.drain()
        (election.add if enters else election.remove)(peer, settle)
        outcome = await asyncio.wait_for(done, 10.0)
        channel.send({"k": "entered", "entered": outcome} if enters else {"k": "left", "left": outcome})
        if outcome:
            log.info("%s %s", peer, "has entered" if enters else "has left")


def _short(error: BaseException) -> str:
    return printable(getattr(error, "reason", None) or type(error).__name__, 100)


class Admission:
    """Counter of the connections that others open, the oldest first.

    Beyond a limit the oldest one is closed, not the newest: slow strangers cannot keep out peers that authenticate quickly.
    """

    def __init__(self) -> None:
        self._open: dict[Channel, str] = {}  # identifier of the key, "" of a stranger's

    @property
    def strangers(self) -> int:
        return len(self._of(""))

    def _of(self, identifier: str) -> list[Channel]:
        return [channel for channel, owner in self._open.items() if owner == identifier]

    @contextmanager
    def counted(self, channel: Channel, identifier: str = "") -> Iterator[None]:
        """Count ``channel`` under the key of ``identifier``, or as a stranger's. Raises ConnectionError for too many in all."""
        if identifier and len(self._open) - self.strangers >= ALL:
            raise ConnectionError(f"there are {ALL} connections already")
        before = self._of(identifier)
        if len(before) >= (OF_ONE if identifier else STRANGERS):
            before[0].abort()
            del self._open[before[0]]
        self._open[channel] = identifier
        try:
            yield
        finally:
            self._open.pop(channel, None)

    def close(self) -> None:
        """Close all authenticated connections, since our name is given up."""
        for channel, identifier in self._open.items():
            if identifier:
                channel.abort()
