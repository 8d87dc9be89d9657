"""Outgoing connections of a peer, one to each of the others, dialled again when they break."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any

from neuro_cli.evolve.network.channel import Channel, RefusedError, StrangerError, dial
from neuro_cli.evolve.network.messages import MalformedError
from neuro_cli.evolve.network.rate_limit import RateLimitedLog
from neuro_cli.fabric.base import Traffic

log = logging.getLogger(__name__)

AGAIN, SELDOM = 0.3, 2.0  # shortest and longest time in seconds until a broken connection is dialled again
ANSWER = 2.0  # seconds that a peer may take to answer
MOST_WAITING = 4 * 2**20  # unsent bytes for a peer that does not read; further messages are dropped, which elections tolerate


class Connections:
    """Connections to peers, each dialled again when it breaks.

    ``tls``: returns the context of a client under our present name. ``changed(peer, connected)`` is called when a connection
    opens or closes, ``refused(peer, reason)`` when a peer refuses ours.
    """

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext],
        traffic: Traffic,
        hello: Callable[[], dict[str, Any]],
        changed: Callable[[str, bool], None],
        refused: Callable[[str, str], None],
    ) -> None:
        self._tls, self._traffic, self._hello, self._changed, self._refused = tls, traffic, hello, changed, refused
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, Channel] = {}
        self._strange = RateLimitedLog(log)

    @property
    def connected(self) -> set[str]:
        return set(self._open)

    @property
    def wanted(self) -> set[str]:
        """Peers that :meth:`want` named, connected or not."""
        return set(self._tasks)

    def want(self, peers: set[str]) -> None:
        """Connect with ``peers``, and close all other connections."""
        for peer in set(self._tasks) - peers:
            self._tasks.pop(peer).cancel()
        for peer in peers - set(self._tasks):
            self._tasks[peer] = asyncio.get_running_loop().create_task(self._keep(peer), name=f"link to {peer}")

    def send(self, peer: str, message: dict[str, Any]) -> None:
        channel = self._open.get(peer)
        if channel is not None and channel.waiting < MOST_WAITING:
            channel.send(message)

    def send_election(self, peer: str, message: dict[str, Any]) -> None:
        self.send(peer, {"k": "election", "m": message})

    def drop(self, peer: str) -> None:
        """Close a silent connection; it is dialled again."""
        channel = self._open.get(peer)
        if channel is not None:
            channel.abort()

    async def _keep(self, peer: str) -> None:
        channel, pause = None, AGAIN
        while True:
            try:
                channel, _ = await dial(peer, self._tls(), self._traffic, self._hello(), ("ok",), ANSWER)
                self._open[peer], pause = channel, AGAIN
                self._changed(peer, True)
                # the other side never sends on it, so this waits for its end
                raise MalformedError(f"{await channel.receive()}")
            except RefusedError as refusal:
                self._refused(peer, str(refusal))
            except StrangerError as stranger:  # another name or another process has its address now
                self._strange.say(f"{peer}: {stranger}")
            except (ConnectionError, OSError):
                pass
            finally:
                if channel is not None:
                    channel.close()
                    if self._open.get(peer) is channel:
                        del self._open[peer]
                        self._changed(peer, False)
                    channel = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)  # the peer may be gone for good

    def close(self) -> None:
        self.want(set())
