"""A grammar of what peers say, learnt from a cluster that works: valid messages, changed at random."""

import asyncio
import copy
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from node_lab import InProcess, progress, wait

from neuro_cli.evolve.identity import FORMAT
from neuro_cli.evolve.network.channel import Channel, RefusedError, dial, packed, unpacked
from neuro_cli.evolve.network.messages import kind_of
from neuro_cli.evolve.state_transfer import fetch
from neuro_cli.fabric.base import Traffic

# what ends a connection and nothing else: as in Listener.accept
ENDS = (ConnectionError, LookupError, TypeError, ValueError, AttributeError)

SAMPLES = 40  # of every sort
NUMBERS = (
    -(2**63), -(2**31), -180, -5, -1, 0, 1, 2, 3, 4, 5, 255, 2**31, 2**32 - 1, 2**32, 2**33, 2**40, 2**53, 2**63 - 1, 2**63,
    2**64 - 1,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *NUMBERS, None, True, False, 0.0, -1.5, 3e38, 1e308, float("nan"), float("inf"), float("-inf"), "", "x", "\x1b[31m\n",
    "a" * 3000, b"", b"\0", b"\0abc", b"\xff" * 4, b"\0\0\xc0\x7f" * 4, b"\xff\xff\x7f\x7f" * 4, b"\0" * 8, b"a" * 4096,
    [], {}, [[]], {"k": {}}, ["x"] * 50, {"a": 1}, [None],
)  # fmt: skip
Place = tuple[Any, ...]


def sort_of(message: dict[str, Any]) -> str:
    """Its kind; of an election, also what sort of it."""
    kind = kind_of(message)
    return f"{kind} {message['m'].get('type')}" if kind == "election" else kind


class Grammar:
    """``said``: valid messages by sort."""

    def __init__(self) -> None:
        self.said: dict[str, list[dict[str, Any]]] = {}

    def hear(self, message: dict[str, Any]) -> None:
        samples = self.said.setdefault(sort_of(message), [])
        if len(samples) < SAMPLES:
            samples.append(copy.deepcopy(message))
        elif random.random() < 0.05:
            samples[random.randrange(SAMPLES)] = copy.deepcopy(message)

    def changed(self, draw: random.Random, sorts: list[str]) -> dict[str, Any]:
        """A message of one of ``sorts``, changed in one to three places, now and then in none."""
        message = copy.deepcopy(draw.choice(self.said[draw.choice(sorts)]))
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            message = self._changed_once(draw, message)
        return message if isinstance(message, dict) else {"k": message}

    def bytes(self, draw: random.Random, sorts: list[str]) -> bytes:
        """The same as it goes over the wire; now and then with wrong bytes in it."""
        content = bytearray(packed(self.changed(draw, sorts)))
        if draw.random() < 0.1 and content:
            for _ in range(draw.randint(1, 4)):
                content[draw.randrange(len(content))] = draw.randrange(256)
        return bytes(content[: draw.randrange(len(content))] if draw.random() < 0.02 else content)

    def _changed_once(self, draw: random.Random, message: Any) -> Any:
        path = draw.choice(list(_paths(message)))
        return _with(message, path, lambda value: self._other(draw, value))

    def _other(self, draw: random.Random, value: Any) -> Any:
        """Something in place of ``value``: of its own kind, or of any."""
        if draw.random() < 0.4:
            return copy.deepcopy(draw.choice(VALUES))
        if isinstance(value, bool) or value is None:
            return draw.choice(VALUES)
        if isinstance(value, int):
            return max(-(2**63), min(draw.choice((*NUMBERS, value + 1, value - 1, value + 1000)), 2**64 - 1))
        if isinstance(value, bytes):
            return _other_bytes(draw, value)
        if isinstance(value, str):
            return draw.choice(
                (value[:-1], value + "x", value[::-1], value.upper(), draw.choice(list(self.said)).partition(" ")[2])
            )
        if isinstance(value, dict):
            keys = list(value)
            if keys and draw.random() < 0.5:
                return {key: value[key] for key in keys if key != draw.choice(keys)}
            return value | {draw.choice(("k", "m", "x", 1, b"y")): draw.choice(VALUES)}
        if isinstance(value, list | tuple):
            more = [*value, *value] if draw.random() < 0.5 else list(value)[:-1]
            return type(value)(more)
        return draw.choice(VALUES)


def _other_bytes(draw: random.Random, value: bytes) -> bytes:
    if not value:
        return b"\0"
    content = bytearray(value)
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return draw.choice((bytes(content), value[:-1], value + b"\0", value * 2, bytes(len(value)), b"\xff" * len(value)))


def _paths(value: Any, before: Place = ()) -> Iterator[Place]:
    yield before
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*before, key))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value[:5]):
            yield from _paths(item, (*before, place))


def _with(value: Any, path: Place, change: Any) -> Any:
    if not path:
        return change(value)
    if isinstance(value, tuple):
        return tuple(_with(list(value), path, change))
    made = copy.copy(value)
    made[path[0]] = _with(value[path[0]], path[1:], change)
    return made


@contextmanager
def hearing(grammar: Grammar, patch: Any) -> Iterator[None]:
    """Let ``grammar`` learn all that peers of this process send."""
    send = Channel.send

    def heard(channel: Channel, message: dict[str, Any]) -> None:
        grammar.hear(message)
        send(channel, message)

    with patch.context() as patched:
        patched.setattr(Channel, "send", heard)
        yield


class HostileCluster:
    """Two honest peers, the credentials of a third member whose process is no longer what it was, and all they have said."""

    def __init__(self, folder: Path, election: str, patch: Any) -> None:
        self.grammar = Grammar()
        with hearing(self.grammar, patch):
            founder = InProcess(folder / "f", election)
            self.honest = [InProcess(folder / name, election, join=founder.address, grace=600.0) for name in "abc"]
            progress([founder, *self.honest])
            self.honest.pop().end(leave=True)
            founder.end(leave=True)  # which led
            wait(lambda: any(peer.leads for peer in self.honest), 30, "another leader")
            hostile = InProcess(folder / "h", election, join=self.honest[0].address, grace=600.0)
            progress([*self.honest, hostile])
        hostile.end()
        self.name, self.credentials = hostile.node.me, hostile.node.state.credentials
        wait(lambda: any(peer.leads for peer in self.honest), 30, "an honest leader")
        progress(self.honest)

    def hello(self, purpose: str, **more: Any) -> dict[str, Any]:
        cluster = self.honest[0].node.state.cluster
        return {"k": "hello", "for": purpose, "format": FORMAT, "peer": self.name, "cluster": cluster, **more}

    def say(self, peer: InProcess, contents: list[bytes]) -> int:
        """Take ``contents`` as messages on a link, one after the other. Return how many would have ended it."""

        def heard() -> int:
            ended = 0
            for content in contents:
                try:
                    message = unpacked(content)
                    if isinstance(message, dict):
                        peer.node.listener.received(self.name, message)
                except ENDS:
                    ended += 1
            return ended

        return int(peer.call(heard))

    def answer(self, peer: InProcess, messages: list[dict[str, Any]]) -> None:
        """Answer a fetch of ``peer`` with ``messages``."""

        class Said:
            most = 0

            async def receive(self) -> dict[str, Any]:
                if not messages:
                    raise ConnectionError("the connection has ended")
                message = unpacked(packed(messages.pop(0)))
                assert isinstance(message, dict)
                return message

        async def fetched() -> None:
            with suppress(*ENDS):
                await fetch(Said(), peer.node.peer_ledger)  # type: ignore[arg-type]

        asyncio.run_coroutine_threadsafe(fetched(), peer.node.loop).result(30)

    async def visit(self, peer: InProcess, draw: random.Random, sorts: list[str]) -> None:
        """Open one connection as a member: a hello, changed or not, and what comes after it."""
        with suppress(*ENDS, RefusedError, OverflowError):  # it may be told anything
            hello = self.hello("link")
            if draw.random() < 0.5:
                hellos = [sort for sort in self.grammar.said if sort.startswith("hello for ")]
                hello = self.grammar.changed(draw, hellos) | {"peer": self.name}
            channel, _ = await dial(peer.node.me, self.credentials.client, Traffic(), hello, ("ok", "cluster"), 10.0)
            for _ in range(5):
                content = self.grammar.bytes(draw, sorts)
                length = draw.choice((len(content), len(content), len(content), 2**31, 0, len(content) + 1))
                channel._writer.write(struct.pack(">I", length) + content)
            await channel._writer.drain()
            channel.close()

    def end(self) -> None:
        for peer in self.honest:
            peer.end()
