"""Leader port of a peer: a second listening socket while it leads, and questions at the ports of others."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from neuro_cli.evolve.network.channel import RefusedError
from neuro_cli.evolve.network.messages import address_of
from neuro_cli.evolve.peer_state import PeerState

ANSWER = 2.0  # seconds for a leader to answer at its port

Words = list[tuple[str, dict[str, Any]]]  # name of each leader, and its message about itself


class LeaderPort:
    """Leader port of a node, on the network thread. ``accept`` serves its connections, like those of the peer's own address."""

    def __init__(self, state: PeerState, accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._state, self._accept = state, accept
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, port: int) -> str:
        """Listen at ``port``. Returns why that is not possible, "" on success."""
        bind = self._state.settings.bind
        try:
            self._socket = socket.create_server(
                (bind, port), family=socket.AF_INET6 if ":" in bind else socket.AF_INET, backlog=128
            )
        except OSError as error:
            return f"{bind}:{port}: {os.strerror(error.errno) if error.errno else error}"
        task = asyncio.get_running_loop().create_task(self._serve(self._socket), name="leader port")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ""

    async def _serve(self, listening: socket.socket) -> None:
        server = None if listening is not self._socket else await asyncio.start_server(self._accept, sock=listening)
        if listening is self._socket:
            self._server = server
        else:  # the port was closed meanwhile
            (server or listening).close()

    def close(self) -> None:
        """Close the port, if it is open or opening."""
        if self._server is not None:
            self._server.close()
        self._server = self._socket = None

    def knock(self, port: int, peers: list[str], answered: Callable[[Words], None]) -> None:
        """Ask who leads at ``port`` of the hosts of ``peers`` and our own; call ``answered`` once, with all leaders."""
        hosts = sorted({address_of(peer).rpartition(":")[0] for peer in (*peers, self._state.address)})
        task = asyncio.get_running_loop().create_task(self._ask_all([f"{host}:{port}" for host in hosts], answered), name="knock")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_all(self, addresses: list[str], answered: Callable[[Words], None]) -> None:
        words = await asyncio.gather(*map(self._ask, addresses))
        answered([word for word in words if word is not None])

    async def _ask(self, address: str) -> tuple[str, dict[str, Any]] | None:
        try:
            channel, answer = await self._state.dial(address, self._state.greeting("leader"), ("word", "leader"), ANSWER)
        except (RefusedError, ConnectionError):
            return None
        channel.close()
        if answer["k"] != "word" or answer["peer"].partition("@")[0] != channel.peer.partition("@")[0]:
            return None  # the peer does not lead, or uses another's name
        return answer["peer"], answer["m"]
