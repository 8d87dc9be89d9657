"""Settings of a peer's network thread, from the config."""

from dataclasses import dataclass


@dataclass
class Settings:
    """Network settings of the config. Times in seconds."""

    address: str  # address that others use for this peer
    join: str | None
    grace: float
    deadline: float
    late: str
    join_timeout: float
    generations: int
    begin_with: int  # peers to wait for before the first iteration
    bind: str = "127.0.0.1"  # address of the leader port
