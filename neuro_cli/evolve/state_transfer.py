"""State transfer: a peer fetches missing iterations from another, as records or as a snapshot and the records after it."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor

from neuro_cli.evolve.ledger.ledger import Ledger, Offered
from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.network.channel import Channel, RefusedError
from neuro_cli.evolve.network.connections import Connections
from neuro_cli.evolve.network.messages import PART, Limits, MalformedError, checked
from neuro_cli.evolve.peer_ledger import PeerLedger, Snapshot
from neuro_cli.evolve.peer_state import PeerState

log = logging.getLogger(__name__)

CHUNK, CHUNK_BYTES = 500, 2**20  # records in a message, and their approximate bytes
NEXT = 20.0  # seconds to wait for the next message
ATTEMPTS, PAUSE = 60, 0.2  # number of attempts, and seconds between them


async def serve(
    channel: Channel, ledger: Ledger, start: int, head: bytes, origin: bytes, newest: Callable[[], Snapshot | None]
) -> None:
    """Send the iterations that a peer with ``start`` iterations and the hash ``head`` lacks; ``newest``: our newest snapshot."""
    if start > ledger.next:
        channel.send({"k": "none"})
        return
    if start < ledger.base or ledger.head_at(start) != head:
        # the peer has another history, or lacks records that were dropped here
        snapshot = newest() if ledger.base else None
        if ledger.base == 0:
            start = 0
            channel.send({"k": "start", "head": origin})
        elif snapshot is not None and snapshot.iteration >= ledger.base:
            start = snapshot.iteration
            content = bytes_of({name: tensor.contiguous() for name, tensor in snapshot.tensors.items()})
            digest = hashlib.sha256(content).hexdigest()
            channel.send({"k": "snapshot", "next": start, "head": snapshot.head, "size": len(content), "sha256": digest})
            for place in range(0, len(content), PART):
                channel.send({"k": "part", "data": content[place : place + PART]})
                await channel.drain()
        else:
            channel.send({"k": "none"})
            return
    while True:
        records = _chunk(ledger.since(start)[:CHUNK])
        channel.send({"k": "records", "records": records})
        await channel.drain()
        if not records:
            return
        start += len(records)


def _chunk(records: list[bytes]) -> list[bytes]:
    """Return the first ``records`` that fit in a message, at least one where any exist."""
    size, count = 0, 0
    while count < len(records) and (not count or size + len(records[count]) <= CHUNK_BYTES):
        size, count = size + len(records[count]), count + 1
    return records[:count]


async def fetch(channel: Channel, ours: PeerLedger) -> None:
    """Receive the messages of :func:`serve`. Raises ConnectionError for records that do not fit.

    Our history gives way to another only when that is complete, and at least as long as ours.
    """
    channel.most = ours.limits.message
    other: Draft | None = None
    snapshot = None
    while True:
        message = await _next(channel, "records", "start", "snapshot", "none")
        kind = message["k"]
        if kind == "records" and not message["records"]:
            break
        if kind == "records":
            _take(message["records"], other or ours)
        elif kind == "none" or other is not None:
            raise ConnectionError("the peer has less than we have, or no snapshot yet for what it has dropped")
        elif kind == "start":
            if message["head"] != ours.limits.origin:
                raise MalformedError("a history of another run")
            other = Draft(Ledger(message["head"]), ours.limits.columns)
        else:
            snapshot = await _snapshot(channel, message, ours.limits)
            other = Draft(Ledger(snapshot.head, snapshot.iteration), ours.limits.columns)
    if other is not None:
        mine, theirs = ours.ledger.next, other.ledger.next
        if theirs < mine:
            raise ConnectionError(f"the peer has less than we have: {theirs} of {mine} iterations, and others")
        ours.replace(other.ledger, other.records, snapshot)


class Draft:
    """History that is being fetched and does not replace ours yet; ``records``: its records, decoded."""

    def __init__(self, ledger: Ledger, columns: int) -> None:
        self.ledger, self._columns = ledger, columns
        self.records: list[LedgerRecord] = []

    def take(self, content: bytes) -> Offered:
        outcome, record = self.ledger.offer(content, self._columns)
        if record is not None:
            self.records.append(record)
        return outcome


async def _next(channel: Channel, *kinds: str) -> dict[str, Any]:
    try:
        async with asyncio.timeout(NEXT):
            return checked(await channel.receive(), *kinds)
    except TimeoutError as error:
        raise ConnectionError(f"nothing came for {NEXT:g} s") from error


def _take(records: list[bytes], ours: PeerLedger | Draft) -> None:
    before = ours.ledger.next
    for record in records:
        at = ours.ledger.next
        if ours.take(record) not in (Offered.APPLIED, Offered.DUPLICATE):
            raise ConnectionError(f"the peer's record of iteration {at} does not follow ours")
    if ours.ledger.next == before:
        raise ConnectionError("the peer sends what we have")


async def _snapshot(channel: Channel, message: dict[str, Any], limits: Limits) -> Snapshot:
    """Receive the snapshot that ``message`` has announced. Raises MalformedError for one of another model."""
    size = message["size"]
    if size > limits.snapshot:
        raise MalformedError(f"a snapshot of {size} bytes, at most {limits.snapshot} are of this model")
    content = bytearray()
    while len(content) < size:
        data = (await _next(channel, "part"))["data"]
        if len(data) != min(PART, size - len(content)):
            raise MalformedError(f"a part of {len(data)} bytes")
        content += data
    if hashlib.sha256(content).hexdigest() != message["sha256"]:
        raise MalformedError("a snapshot was damaged on its way")
    try:
        tensors = tensors_of(bytes(content))
    except SafetensorError as error:
        raise MalformedError("a snapshot that is none") from error
    if shapes_of(tensors) != limits.tensors:
        raise MalformedError("a snapshot of another model")
    if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
        raise MalformedError("a snapshot with numbers that are not finite")
    return Snapshot(message["next"], message["head"], tensors)


def shapes_of(tensors: dict[str, Tensor]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and dtype by name."""
    return {name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in tensors.items()}


class StateTransfer:
    """Fetches of a node, on the network thread, one at a time."""

    def __init__(self, state: PeerState, connections: Connections, ledger: PeerLedger) -> None:
        self._state, self._connections, self._ledger = state, connections, ledger
        self._task: asyncio.Task[None] | None = None

    def begin(self, position: int, source: str | None) -> None:
        """Start to fetch the missing ones of the first ``position`` iterations, first from ``source`` where that has them."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._fetch(position, source), name="fetch")

    def stop(self) -> None:
        """End a fetch that is under way; no further record of it is taken."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _fetch(self, position: int, source: str | None) -> None:
        state = self._state
        for attempt in range(ATTEMPTS):
            candidates = (source, state.leader, *sorted(self._connections.connected))
            others = [peer for peer in candidates if peer and peer != state.me]
            if others:
                peer = others[attempt % len(others)]
                try:
                    await self.fetch_from(peer)
                    if self._ledger.ledger.next >= position:
                        return
                except (RefusedError, ConnectionError) as error:
                    log.info("could not fetch iterations from %s: %s", peer, error)
            await asyncio.sleep(PAUSE)
        log.error("iterations before %d could not be fetched from anybody", position)

    async def fetch_from(self, peer: str) -> dict[str, Any]:
        """Fetch all iterations of a peer (a name, or HOST:PORT) that we lack. Returns its answer, with its cluster."""
        ledger = self._ledger.ledger
        hello = {**self._state.hello("fetch"), "next": ledger.next, "head": ledger.head}
        channel, answer = await self._state.dial(peer, hello, ("cluster",), self._state.settings.join_timeout)
        try:
            await fetch(channel, self._ledger)
        finally:
            channel.close()
        return answer
