"""The sequence of committed iterations: a pure state machine, the same on every peer whatever order messages come in."""

import hashlib
from enum import Enum

from neuro_cli.evolve.ledger.record import InvalidRecordError, LedgerRecord, decoded


class Offered(Enum):
    """What became of a record that was offered."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"  # that iteration is there already
    GAP = "gap"  # iterations before it are missing
    FORK = "fork"  # it follows another history
    INVALID = "invalid"


def origin(identity: bytes) -> bytes:
    """The hash before the first record: what the run is of (config, noise, initial parameters)."""
    return hashlib.sha256(b"neuro evolve 1\n" + identity).digest()


class Ledger:
    """Records ``base`` to ``next`` - 1, each chained to all before it by a SHA-256.

    ``head`` names everything committed so far, also what was dropped by :meth:`compact`.
    """

    def __init__(self, head: bytes, base: int = 0) -> None:
        self.base, self.head = base, head
        self._heads: list[bytes] = [head]
        self.records: list[bytes] = []

    @property
    def next(self) -> int:
        """The iteration that comes next: so many are committed."""
        return self.base + len(self.records)

    def offer(self, content: bytes, columns: int | None = None) -> tuple[Offered, LedgerRecord | None]:
        """Take an encoded record if it is the next one; the record is given back when it was taken.

        ``columns``: of the task's scores, where the task is known.
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
        """Records from ``iteration`` on. Raises LookupError for those that were dropped."""
        if iteration < self.base:
            raise LookupError(iteration)
        return self.records[iteration - self.base :]

    def head_at(self, iteration: int) -> bytes | None:
        """The hash of everything before ``iteration``, None where that is not known (any more)."""
        return self._heads[iteration - self.base] if self.base <= iteration <= self.next else None

    def compact(self, iteration: int) -> None:
        """Drop the records before ``iteration``."""
        if self.base < iteration <= self.next:
            drop = iteration - self.base
            self.records, self._heads, self.base = self.records[drop:], self._heads[drop:], iteration
