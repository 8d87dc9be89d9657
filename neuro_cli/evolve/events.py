"""What passes between a peer's two threads, and what the network's thread is told of the config."""

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


@dataclass
class Settings:
    """What the config says of the network. Times in seconds."""

    address: str  # under which others reach this peer
    join: str | None
    grace: float
    deadline: float
    late: str
    join_timeout: float
    generations: int
    begin_with: int  # peers that are waited for before the first iteration
