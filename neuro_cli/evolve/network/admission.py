"""Limits on the connections of unauthenticated strangers, of each key, and in all."""

from collections.abc import Iterator
from contextlib import contextmanager

from neuro_cli.evolve.network.channel import Channel

STRANGERS, OF_ONE, ALL = 64, 8, 512  # most connections of strangers, of one key, and in all


class Admission:
    """Counter of the connections that others open.

    Beyond a limit the oldest one is closed, not the newest: slow strangers cannot keep out peers that authenticate quickly.
    """

    def __init__(self) -> None:
        self._strangers: dict[Channel, None] = {}
        self._authenticated: dict[str, dict[Channel, None]] = {}

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    @contextmanager
    def stranger(self, channel: Channel) -> Iterator[None]:
        """Count ``channel`` as a stranger's until it is authenticated."""
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
    def authenticated(self, channel: Channel, identifier: str) -> Iterator[None]:
        """Count ``channel`` under the key of ``identifier``. Raises ConnectionError when there are too many in all."""
        if sum(map(len, self._authenticated.values())) >= ALL:
            raise ConnectionError(f"there are {ALL} connections already")
        mine = self._authenticated.setdefault(identifier, {})
        if len(mine) >= OF_ONE:
            oldest = next(iter(mine))
            oldest.abort()
            del mine[oldest]
        mine[channel] = None
        try:
            yield
        finally:
            mine.pop(channel, None)
            if not mine and self._authenticated.get(identifier) is mine:
                del self._authenticated[identifier]

    def close(self) -> None:
        """Close all authenticated connections, since our name is given up."""
        for channels in self._authenticated.values():
            for channel in channels:
                channel.abort()
