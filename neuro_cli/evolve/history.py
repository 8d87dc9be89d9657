"""How a peer gets the iterations that it lacks from another: records, or a snapshot and the records after it."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor

from neuro_cli.evolve.channel import Channel
from neuro_cli.evolve.ledger import Ledger, Outcome

CHUNK, PART = 500, 2**20  # records in a message; bytes of a snapshot in one


@dataclass(frozen=True)
class Snapshot:
    """The model after ``iteration`` committed iterations, whose hash is ``head``: parameters and the task's state, by name."""

    iteration: int
    head: bytes
    tensors: dict[str, Tensor]


class Keeper(Protocol):
    """Who holds a ledger."""

    ledger: Ledger

    def commit(self, content: bytes) -> None: ...

    def replace(self, ledger: Ledger, snapshot: Snapshot | None) -> None: ...


async def serve(
    channel: Channel, ledger: Ledger, start: int, head: bytes, origin: bytes, newest: Callable[[], Snapshot | None]
) -> None:
    """Send what a peer lacks that has ``start`` iterations, called ``head``; ``newest``: our newest snapshot."""
    if start > ledger.next:
        channel.send({"k": "none"})
        return
    if start < ledger.base or ledger.head_at(start) != head:
        # it has another history, or what it lacks first was dropped here
        snapshot = newest() if ledger.base else None
        if ledger.base == 0:
            start = 0
            channel.send({"k": "start", "next": 0, "head": origin})
        elif snapshot is not None and snapshot.iteration >= ledger.base:
            start = snapshot.iteration
            content = bytes_of({name: tensor.contiguous() for name, tensor in snapshot.tensors.items()})
            digest = hashlib.sha256(content).hexdigest()
            channel.send({"k": "start", "next": start, "head": snapshot.head, "size": len(content), "sha256": digest})
            for place in range(0, len(content), PART):
                channel.send({"k": "part", "data": content[place : place + PART]})
                await channel.drain()
        else:
            channel.send({"k": "none"})
            return
    while True:
        records = ledger.since(start)[:CHUNK]
        channel.send({"k": "records", "records": records})
        await channel.drain()
        if not records:
            return
        start += len(records)


async def fetch(channel: Channel, keeper: Keeper) -> None:
    """Take what :func:`serve` sends. Raises ConnectionError for what does not fit."""
    while True:
        message = await channel.receive()
        kind = message.get("k")
        if kind == "records":
            if not message["records"]:
                return
            _take(message["records"], keeper)
        elif kind == "start":
            snapshot = await _snapshot(channel, message) if "size" in message else None
            keeper.replace(Ledger(bytes(message["head"]), int(message["next"])), snapshot)
        else:
            raise ConnectionError("the peer has less than we have, or no snapshot yet for what it has dropped")


def _take(records: list[bytes], keeper: Keeper) -> None:
    for record in records:
        before = keeper.ledger.next
        keeper.commit(bytes(record))
        if keeper.ledger.next == before and keeper.ledger.offer(bytes(record))[0] is not Outcome.DUPLICATE:
            raise ConnectionError(f"the peer's record of iteration {before} does not follow ours")


async def _snapshot(channel: Channel, message: dict[str, Any]) -> Snapshot:
    content = bytearray()
    while len(content) < int(message["size"]):
        content += bytes((await channel.receive())["data"])
    if hashlib.sha256(content).hexdigest() != message["sha256"]:
        raise ConnectionError("a snapshot was damaged on its way")
    return Snapshot(int(message["next"]), bytes(message["head"]), tensors_of(bytes(content)))
