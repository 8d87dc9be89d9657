"""Ledger of committed iterations: a pure state machine, the same on every peer for any order of messages."""

import hashlib
from enum import Enum

from neuro_cli.evolve.ledger.record import InvalidRecordError, LedgerRecord, decoded


class Offered(Enum):
    """Outcome of an offered record."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"  # the ledger has that iteration already
    GAP = "gap"  # iterations before it are missing
    FORK = "fork"  # the record follows another history
    INVALID = "invalid"


def origin(identity: bytes) -> bytes:
    """Return the hash before the first record, from the run's identity (config, noise, initial parameters)."""
    return hashlib.sha256(b"neuro evolve 1\n" + identity).digest()


class Ledger:
    """Records ``base`` to ``next`` - 1, each chained to all before it by a SHA-256.

    ``head`` is the hash of everything committed so far, also of records dropped by :meth:`compact`.
    """

    def __init__(self, head: bytes, base: int = 0) -> None:
        self.base, self.head = base, head
        self._heads: list[bytes] = [head]
        self.records: list[bytes] = []

    @property
    def next(self) -> int:
        """Next iteration, which is the number of committed ones."""
        return self.base + len(self.records)

    def offer(self, content: bytes, columns: int | None = None) -> tuple[Offered, LedgerRecord | None]:
        """Append an encoded record if it is the next one, and return it decoded.

        ``columns``: number of the task's score columns; None: not checked.
        """
        try:
            record = decoded(content, columns)
        except InvalidRecordError:
            return Offered.INVALID, None
        if record.iteration != self.next:
            return (Offered.DUPLICATE if record.iteration < self.next else Offered.GAP), None
        if record.parent != self.head[:8]:
            return Offered.FORK, None
        self.head = hashlib.sha256(self.head + content).digest()
        self.records.append(content)
        self._heads.append(self.head)
        return Offered.APPLIED, record

    def since(self, iteration: int) -> list[bytes]:
        """Return the records from ``iteration`` on. Raises LookupError for dropped ones."""
        if iteration < self.base:
            raise LookupError(iteration)
        return self.records[iteration - self.base :]

    def head_at(self, iteration: int) -> bytes | None:
        """Return the hash of everything before ``iteration``, None if unknown."""
        return self._heads[iteration - self.base] if self.base <= iteration <= self.next else None

    def until(self, iteration: int) -> "Ledger":
        """Return a ledger of the records before ``iteration``. Raises LookupError where it does not have them."""
        if not self.base <= iteration <= self.next:
            raise LookupError(iteration)
        earlier = Ledger(self._heads[0], self.base)
        for record in self.records[: iteration - self.base]:
            earlier.offer(record)
        return earlier

    def compact(self, iteration: int) -> None:
        """Drop the records before ``iteration``."""
        if self.base < iteration <= self.next:
            drop = iteration - self.base
            self.records, self._heads, self.base = self.records[drop:], self._heads[drop:], iteration
