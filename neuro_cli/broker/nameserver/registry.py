"""Registry of a nameserver: the living brokers, and the next id, which survives a crash."""

import fcntl
import logging
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from neuro_cli.core.errors import UserError

log = logging.getLogger(__name__)

LARGEST_ID = 2**62
LEAP = 10_000  # an id that far beyond the next one cannot come from an older state of the file


@dataclass
class BrokerEntry:
    """Broker as its last heartbeat described it; ``heard`` in seconds of the registry's clock."""

    broker_id: int
    address: str
    token: str
    heard: float
    waiting: int = 0
    running: int = 0
    workers: int = 0


class TakenError(Exception):
    """Raised where a living broker has the id that another one asks to keep."""


class UnknownError(Exception):
    """Raised for a broker that is not registered: it was dropped, or none exists."""


def locked(folder: Path) -> IO[bytes]:
    """Open a file in ``folder``, made if need be, and lock it as long as this process lives. Raises UserError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise UserError(f"{folder}: another process works on this folder; give each one its own") from error
    except OSError as error:
        log.warning("%s: no locks on this file system (%s): make sure that no second process works there", folder, error.strerror)
    return file


class Ids:
    """Counter of broker ids, written to ``folder`` before an id is given away. One process at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "next_broker_id"
        self._lock = locked(folder)
        text = self._path.read_bytes() if self._path.exists() else b"1"
        if not re.fullmatch(rb"[1-9][0-9]{0,18}\s*", text) or int(text) > LARGEST_ID - LEAP:
            said = text[:40].decode(errors="replace").strip()
            raise UserError(
                f"{self._path}: {said!r} is no id; it must be larger than that of any broker so far, up to {LARGEST_ID - LEAP}"
            )
        self.next = int(text)

    def take(self) -> int:
        """Take a number that was never taken before. Raises TakenError when none is left."""
        given = self.next
        if given >= LARGEST_ID:
            raise TakenError(f"all ids up to {LARGEST_ID} were given away")
        self.skip_to(given + 1)
        return given

    def skip_to(self, number: int) -> None:
        """Take no number below ``number``."""
        if number <= self.next:
            return
        draft = self._path.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(str(number))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)
        self.next = number


class Registry:
    """Living brokers. One that is silent for ``timeout`` seconds is dropped."""

    def __init__(self, ids: Ids, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ids, self._timeout, self._clock = ids, timeout, clock
        self._entries: dict[int, BrokerEntry] = {}

    def register(self, address: str, asked: int, token: str) -> int:
        """Return the id of a broker: its own, or a new one where it has none or one far out of range. Raises TakenError."""
        self._drop_silent()
        holder = self._entries.get(asked)
        if holder is not None and holder.token != token:
            raise TakenError(f"broker {asked} at {holder.address} lives")
        if asked < self._ids.next + LEAP:  # one call could otherwise leave no ids to others
            self._ids.skip_to(min(asked + 1, LARGEST_ID))
        else:
            asked = 0
        broker_id = asked or self._ids.take()
        self._entries[broker_id] = BrokerEntry(broker_id, address, token, self._clock())
        return broker_id

    def heartbeat(self, beat: BrokerEntry) -> None:
        """Note that a broker lives. Raises UnknownError: it must register again, as all must after a restart."""
        self._drop_silent()
        known = self._entries.get(beat.broker_id)
        if known is None or known.token != beat.token:
            raise UnknownError(f"broker {beat.broker_id} is not known")
        beat.heard = self._clock()
        self._entries[beat.broker_id] = beat

    def living(self) -> list[BrokerEntry]:
        """Return all living brokers by id."""
        self._drop_silent()
        return [self._entries[number] for number in sorted(self._entries)]

    def peer(self, broker_id: int) -> BrokerEntry:
        """Choose a random other broker; one with tasks waiting, if any has. Raises UnknownError without another."""
        others = [entry for entry in self.living() if entry.broker_id != broker_id]
        if not others:
            raise UnknownError("no other broker is registered")
        return random.choice([entry for entry in others if entry.waiting] or others)

    def _drop_silent(self) -> None:
        limit = self._clock() - self._timeout
        self._entries = {number: entry for number, entry in self._entries.items() if entry.heard >= limit}
