"""Events that a peer's network thread reports to its worker."""

from dataclasses import dataclass

from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.state_transfer import Snapshot


@dataclass(frozen=True)
class Committed:
    """News for the worker: the next record; ``head`` names everything up to it. ``traffic``: bytes sent and received so far."""

    record: LedgerRecord
    head: bytes
    leads: bool
    traffic: tuple[int, int]


@dataclass(frozen=True)
class Reset:
    """News for the worker: begin again from a snapshot, or (None) from the initial model."""

    snapshot: Snapshot | None


@dataclass(frozen=True)
class Failed:
    """News for the worker: the network thread has ended by this error."""

    error: Exception
