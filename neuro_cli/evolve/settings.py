"""Settings of a peer's network thread, from the config."""

from dataclasses import dataclass


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
