"""Keys of ``cluster`` in ``conf/evolve.yaml``, each checked once. Imports no torch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.evolve.settings import Settings
from neuro_cli.run_folder.config import is_run

HOSTS = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:.]{2,45}"
MOST_PEERS, MOST_LOCAL = 256, 256  # peers on this machine; local iterations of a report


@dataclass(frozen=True)
class ClusterConfig:
    """Cluster of a peer; the comments in ``conf/evolve.yaml`` say what each key is. Times in seconds."""

    local_peers: int
    join: str | None
    bind: str
    port: int
    advertise: str | None
    secret_file: str | None
    grace: float
    deadline: float
    local_iterations: int
    late: str
    join_timeout: float
    compact_every: int
    from_run: Path | None
    force_new: bool

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> Self:
        """Check the keys, and how they fit together. Raises ConfigError."""
        cluster = cls(
            local_peers=integer("cluster.local_peers", node["local_peers"], 1, MOST_PEERS),
            join=None if node["join"] is None else _address(node["join"]),
            bind=_host("cluster.bind", node["bind"]),
            port=integer("cluster.port", node["port"], 0, 65535),
            advertise=None if node["advertise"] is None else _host("cluster.advertise", node["advertise"]),
            secret_file=None if node["secret_file"] is None else str(node["secret_file"]),
            grace=number("cluster.grace", node["grace"], above=0.0),
            deadline=number("cluster.deadline", node["deadline"], above=0.0),
            local_iterations=integer("cluster.local_iterations", node["local_iterations"], 1, MOST_LOCAL),
            late=one_of("cluster.late", node["late"], ("drop", "count")),
            join_timeout=number("cluster.join_timeout", node["join_timeout"], above=0.0),
            compact_every=integer("cluster.compact_every", node["compact_every"], 1),
            from_run=None if node["from_run"] is None else Path(str(node["from_run"])),
            force_new=boolean("cluster.force_new", node["force_new"]),
        )
        cluster._fit()
        return cluster

    def _fit(self) -> None:
        if self.join is not None and self.force_new:
            raise ConfigError("cluster.force_new", True, "a new cluster joins none: leave cluster.join null")
        if self.from_run is not None and self.join is None and not self.force_new:
            allowed = "its cluster may live on: join it, or found a new one of what this peer had by cluster.force_new=true"
            if not is_run(self.from_run):
                allowed = "no run of neuro evolve is in it"
            raise ConfigError("cluster.from_run", self.from_run, allowed)
        if self.force_new and self.from_run is None:
            raise ConfigError("cluster.force_new", True, "needs cluster.from_run=RUN, the folder of a surviving peer")

    def settings(self, address: str, generations: int) -> Settings:
        """Return the settings of the network thread of a peer that others reach at ``address``."""
        return Settings(
            address=address, join=self.join, grace=self.grace, deadline=self.deadline, late=self.late,
            join_timeout=self.join_timeout, generations=generations, begin_with=self.local_peers, bind=self.bind,
        )  # fmt: skip


def _address(value: Any) -> str:
    host, colon, port = str(value).rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError("cluster.join", value, "must be HOST:PORT")
    return str(value)


def _host(key: str, value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(HOSTS, value):
        raise ConfigError(key, value, "must be an address or the name of a host")
    return value
