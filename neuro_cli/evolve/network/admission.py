"""How many connections a peer holds at once: of strangers few, the oldest giving way; of one key fewer still."""

from collections.abc import Iterator
from contextlib import contextmanager

from neuro_cli.evolve.network.channel import Channel

STRANGERS, OF_ONE, ALL = 64, 8, 512  # connections


class Admission:
    """Counts the connections that others open. Where there are too many the oldest of that sort is ended, not the newest:
    who is slow to show the secret must not keep out who is quick."""

    def __init__(self) -> None:
        self._strangers: dict[Channel, None] = {}
        self._known: dict[str, dict[Channel, None]] = {}

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @contextmanager
    def stranger(self, channel: Channel) -> Iterator[None]:
        """While it has not said who it is."""
        self._strangers[channel] = None
        if len(self._strangers) > STRANGERS:
            oldest = next(iter(self._strangers))
            oldest.abort()
            del self._strangers[oldest]
        try:
            yield
        finally:
            self._strangers.pop(channel, None)

    @contextmanager
    def known(self, channel: Channel, identifier: str) -> Iterator[None]:
        """While somebody with the key of ``identifier`` is connected. Raises ConnectionError when the house is full."""
        if sum(map(len, self._known.values())) >= ALL:
            raise ConnectionError(f"there are {ALL} connections already")
        mine = self._known.setdefault(identifier, {})
        if len(mine) >= OF_ONE:
            oldest = next(iter(mine))
            oldest.abort()
            del mine[oldest]
        mine[channel] = None
        try:
            yield
        finally:
            mine.pop(channel, None)
            if not mine and self._known.get(identifier) is mine:
                del self._known[identifier]

    def close(self) -> None:
        """End all connections of those who are known: the name that they speak with is given up."""
        for channels in self._known.values():
            for channel in channels:
                channel.abort()
