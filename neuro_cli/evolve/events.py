"""Events that a peer's network thread reports to its worker."""

from dataclasses import dataclass

from neuro_cli.evolve.ledger.record import LedgerRecord
from neuro_cli.evolve.peer_ledger import Snapshot


@dataclass(frozen=True)
class Committed:
    """Commit of the next record; ``head``: hash of everything up to it; ``traffic``: bytes sent and received so far."""

    record: LedgerRecord
    head: bytes
    leads: bool
    traffic: tuple[int, int]


@dataclass(frozen=True)
class Reset:
    """Reset of the model to a snapshot, or (None) to the initial one."""

    snapshot: Snapshot | None


@dataclass(frozen=True)
class Failed:
    """Failure: the network thread has ended by this error."""

    error: Exception
