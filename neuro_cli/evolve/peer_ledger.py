"""Ledger of one peer, in memory and on disk: appends committed records, or gives way to another history."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from neuro_cli.core.errors import UserError
from neuro_cli.evolve.ledger.file import LedgerFile
from neuro_cli.evolve.ledger.ledger import Ledger, Offered
from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.network.messages import Limits

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """Model after ``iteration`` iterations with the hash ``head``: parameters and the task's state, by name."""

    iteration: int
    head: bytes
    tensors: dict[str, Tensor]


class PeerLedger:
    """Ledger in memory (``ledger``) and in the folder ``run`` (``ledger.bin``), on the network thread.

    ``committed`` is called with each record and the hash up to it, ``replaced`` when another history takes the place of ours,
    ``fail`` when the file cannot be written, ``fetch`` to begin a :class:`~neuro_cli.evolve.state_transfer.StateTransfer`.
    """

    def __init__(
        self,
        run: Path,
        ledger: Ledger,
        limits: Limits,
        committed: Callable[[LedgerRecord, bytes], None],
        replaced: Callable[[Snapshot | None], None],
        fail: Callable[[Exception], None],
        fetch: Callable[[int, str | None], None],
    ) -> None:
        self._run, self.ledger, self.limits = run, ledger, limits
        self._committed, self._replaced, self._fail, self._fetch = committed, replaced, fail, fetch

    @property
    def next(self) -> int:
        return self.ledger.next

    @property
    def head(self) -> bytes:
        return self.ledger.head

    def position(self) -> tuple[int, bytes]:
        """Return the number of iterations, and the hash of all of them."""
        return self.ledger.next, self.ledger.head

    def open(self) -> None:
        """Write the file. Raises UserError where that fails."""
        self._file = LedgerFile(self._run, self.ledger)

    def close(self) -> None:
        self._file.close()

    def has(self, position: int, head: bytes) -> bool:
        """Return whether this peer has the first ``position`` iterations with the hash ``head``, or has dropped that record."""
        ledger = self.ledger
        return position <= ledger.next and (position < ledger.base or ledger.head_at(position) == head)

    def commit(self, content: bytes) -> None:
        """Append a record that the election has committed; fetch what is missing before it, or another history."""
        outcome = self.take(content)
        if outcome is Offered.GAP:
            self.fall_back(self.ledger.next + 1, b"", None)
        elif outcome is Offered.INVALID:
            log.error("a committed record has another version: it is left out")
        elif outcome is Offered.FORK:
            log.error("a committed record follows another history than ours: taking the leader's history")
            self.fall_back(self.ledger.next, b"", None)

    def take(self, content: bytes) -> Offered:
        """Append a record if it is the next one."""
        outcome, record = self.ledger.offer(content, self.limits.columns)
        if record is not None:
            self._append(content)
            self._committed(record, self.ledger.head)
        return outcome

    def _append(self, content: bytes) -> None:
        """Write a record to the file. If that fails, this peer ends, since its file would have a gap."""
        self._or_fail(lambda: self._file.append(content))

    def _or_fail(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._fail(UserError(f"{self._run}: the ledger cannot be written: {error.strerror}"))

    def fall_back(self, position: int, head: bytes, source: str | None) -> None:
        """Fetch the history up to ``position`` unless we have it as ``head``; first from ``source`` if known."""
        if not head or self.ledger.head_at(position) != head:
            self._fetch(position, source)

    def replace(self, ledger: Ledger, records: list[LedgerRecord], snapshot: Snapshot | None) -> None:
        """Take another history and its ``records``; the worker begins again from ``snapshot``, or (None) the initial model."""
        if self.ledger.next <= ledger.base:
            log.info("the iterations before %d come as a snapshot", ledger.base)
        else:
            log.warning("our %d iterations give way to another history from iteration %d on", self.ledger.next, ledger.base)
        self.ledger = ledger
        self._or_fail(lambda: self._file.rewrite(ledger))
        self._replaced(snapshot)
        for record in records:
            head = ledger.head_at(record.iteration + 1)
            assert head is not None
            self._committed(record, head)

    def compact(self, iteration: int) -> None:
        """Drop the records before ``iteration``, which a snapshot replaces."""
        self.ledger.compact(iteration)
        self._or_fail(lambda: self._file.rewrite(self.ledger))
        log.info("the ledger is compacted: a snapshot up to iteration %d, and %d records", iteration, len(self.ledger.records))

    def marker(self) -> Callable[[], None]:
        """Return the :meth:`~neuro_cli.evolve.ledger.file.LedgerFile.marker` of the file."""
        return self._file.marker()
