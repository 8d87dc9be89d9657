"""Keys of ``cluster`` in ``conf/peers.yaml``, each checked once. Imports no torch."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.core.checks import boolean
from neuro_cli.core.errors import ConfigError
from neuro_cli.run_folder.config import is_run
from neuro_cli.runner.config import bounded, key, or_none, positive

HOSTS = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:.]{2,45}"
MOST_PEERS, MOST_LOCAL = 256, 256  # peers on this machine; local iterations of a report


def _address(key: str, value: Any) -> str:
    host, colon, port = str(value).rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(key, value, "must be HOST:PORT")
    return str(value)


def _host(key: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(HOSTS, value):
        raise ConfigError(key, value, "must be an address or the name of a host")
    return value


@dataclass(frozen=True)
class ClusterConfig:
    """Cluster of a peer; the comments in ``conf/peers.yaml`` say what each key is. Times in seconds."""

    local_peers: int = key(bounded(1, MOST_PEERS))
    join: str | None = key(or_none(_address))
    bind: str = key(_host)
    port: int = key(bounded(0, 65535))
    advertise: str | None = key(or_none(_host))
    secret_file: str | None = key(or_none(lambda key, value: str(value)))
    grace: float = key(positive)
    deadline: float = key(positive)
    local_iterations: int = key(bounded(1, MOST_LOCAL))
    join_timeout: float = key(positive)
    compact_every: int = key(bounded(1))
    from_run: Path | None = key(or_none(lambda key, value: Path(str(value))))
    force_new: bool = key(boolean)

    def __post_init__(self) -> None:
        if self.join is not None and self.force_new:
            raise ConfigError("cluster.force_new", True, "a new cluster joins none: leave cluster.join null")
        if self.from_run is not None and self.join is None and not self.force_new:
            allowed = "its cluster may live on: join it, or found a new one of what this peer had by cluster.force_new=true"
            if not is_run(self.from_run):
                allowed = "no run of neuro evolve is in it"
            raise ConfigError("cluster.from_run", self.from_run, allowed)
        if self.force_new and self.from_run is None:
            raise ConfigError("cluster.force_new", True, "needs cluster.from_run=RUN, the folder of a surviving peer")
