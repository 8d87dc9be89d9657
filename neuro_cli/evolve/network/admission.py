"""Limits on the connections of unauthenticated strangers, of each key, and in all."""

from collections.abc import Iterator
from contextlib import contextmanager

from neuro_cli.evolve.network.channel import Channel

STRANGERS, OF_ONE, ALL = 64, 8, 512  # most connections of strangers, of one key, and in all


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
