"""Registry of a nameserver: the living brokers, as their last heartbeats describe them.

An id is a random number, so no two brokers get the same one, although a nameserver stores nothing. Brokers keep their ids and
register again when a nameserver does not know them.
"""

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from neuro_cli.broker.proto.nameserver_pb2 import BrokerInfo

LARGEST_ID = 2**62
DRAWN = 2**48  # ids that are drawn are at most this: a thousand brokers have two of one id with probability 2e-9


@dataclass
class BrokerEntry:
    """Entry of a broker in the registry, and its token; ``heard`` in seconds of the registry's clock."""

    info: BrokerInfo
    token: str
    heard: float


class TakenError(Exception):
    """Raised where a living broker has the id in the registry that another one asks to keep."""


class UnknownError(Exception):
    """Raised for a broker that is not registered: it was dropped, or none exists."""


class Registry:
    """Registry of living brokers. One that is silent for ``timeout`` seconds is dropped."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout, self._clock = timeout, clock
        self._entries: dict[int, BrokerEntry] = {}

    def register(self, address: str, asked: int, token: str) -> int:
        """Register a broker and return its id: the one that it asks to keep, or a new one for 0. Raises TakenError."""
        self._drop_silent()
        holder = self._entries.get(asked)
        if holder is not None and holder.token != token:
            raise TakenError(f"broker {asked} at {holder.info.address} lives")
        broker_id = asked or secrets.randbelow(DRAWN) + 1
        self._entries[broker_id] = BrokerEntry(BrokerInfo(broker_id=broker_id, address=address), token, self._clock())
        return broker_id

    def heartbeat(self, info: BrokerInfo, token: str) -> None:
        """Note that a broker lives. Raises UnknownError: it must register again, as all must after a restart."""
        self._drop_silent()
        entry = self._entries.get(info.broker_id)
        if entry is None or entry.token != token:
            raise UnknownError(f"broker {info.broker_id} is not known")
        self._entries[info.broker_id] = BrokerEntry(info, token, self._clock())

    def living(self) -> list[BrokerInfo]:
        """Return all living brokers in the registry by id."""
        self._drop_silent()
        return [self._entries[number].info for number in sorted(self._entries)]

    def peer(self, broker_id: int) -> BrokerInfo:
        """Choose a random other broker of the registry; one with tasks waiting, if any has. Raises UnknownError without one."""
        others = [info for info in self.living() if info.broker_id != broker_id]
        if not others:
            raise UnknownError("no other broker is registered")
        return random.choice([info for info in others if info.waiting] or others)

    def _drop_silent(self) -> None:
        limit = self._clock() - self._timeout
        self._entries = {number: entry for number, entry in self._entries.items() if entry.heard >= limit}
