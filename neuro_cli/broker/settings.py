"""Settings of a cluster's processes, checked; ``conf/broker_cluster.yaml`` names them."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.broker.addresses import check_address
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError, nearest

SMALLEST_MESSAGE, LARGEST_MESSAGE = 65536, 2**30

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Security:
    """Parties that a process trusts: holders of certificates of the folder ``certificates``; None: all users of this machine.

    ``local``: those certificates are for processes on this machine.
    """

    certificates: Path | None = None
    message_bytes: int = 4 * 2**20
    local: bool = False

    @property
    def only_here(self) -> bool:
        """True where no connection leaves this machine."""
        return self.certificates is None or self.local


@dataclass(frozen=True)
class NameserverSettings:
    address: str
    folder: Path = Path("outputs/cluster/nameserver")
    timeout: float = 5.0


@dataclass(frozen=True)
class BrokerSettings:
    """Settings of a broker; times in seconds. The comments in ``conf/broker_cluster.yaml`` say what each is."""

    address: str
    nameserver: str
    folder: Path
    queue_limit: int = 100_000
    attempts: int = 3
    raised_attempts: int = 1
    losses: int = 10
    worker_timeout: float = 10.0
    unknown_kind_after: float = 30.0
    forget_after: float = 86400.0
    peering: bool = True
    durable: str = "process"


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker. ``kinds``: its types of task, each with the place of its function; ``memory`` in MiB."""

    nameserver: str
    name: str = ""
    children: int = 1
    kinds: dict[str, str] = field(default_factory=lambda: dict(KINDS))
    memory: int | None = None
    threads: int = 1
    ranks: int = 1
    drain_seconds: float = 3600.0


def security_of(config: dict[str, Any]) -> Security:
    """Settle the certificates: without a folder those of the user, which are made the first time. Raises UserError."""
    unsettled = check_security(config)
    if unsettled is not None:
        return unsettled
    from neuro_cli.broker.certificates import own_certificates

    size = config["security"]["message_bytes"]
    return Security(own_certificates(), size, local=True)


def check_security(config: dict[str, Any]) -> Security | None:
    """Return the result of `security_of`, or None where that has the user's own certificates. Raises UserError."""
    node = _section(config, "security")
    folder, insecure = node["certificates"], boolean("security.insecure", node["insecure"])
    size = integer("security.message_bytes", node["message_bytes"], SMALLEST_MESSAGE, LARGEST_MESSAGE)
    if insecure:
        if folder is not None:
            raise ConfigError("security.insecure", "true", f"security.certificates={folder} says the opposite; give one of them")
        log.warning(
            "security.insecure=true: every user of this machine can use this cluster, and so run its workers' kinds of task"
        )
        return Security(None, size)
    if folder is None:
        return None
    if not Path(str(folder)).is_dir():
        raise ConfigError("security.certificates", folder, f"there is no such folder; neuro search certs {folder} makes it")
    return Security(Path(str(folder)), size)


def nameserver_settings(config: dict[str, Any]) -> NameserverSettings:
    """Check the settings of a nameserver. Raises UserError."""
    node = _section(config, "nameserver")
    timeout = number("nameserver.timeout", node["timeout"], above=0.0)
    return NameserverSettings(check_address("nameserver.address", node["address"], zero=True), Path(str(node["folder"])), timeout)


def broker_settings(config: dict[str, Any]) -> BrokerSettings:
    """Check the settings of a broker. Raises UserError."""
    node = _section(config, "broker")
    return BrokerSettings(
        address=check_address("broker.address", node["address"], zero=True),
        nameserver=check_address("nameserver.address", _section(config, "nameserver")["address"]),
        folder=Path(str(node["folder"])),
        queue_limit=integer("broker.queue_limit", node["queue_limit"], 1),
        attempts=integer("broker.attempts", node["attempts"], 1),
        raised_attempts=integer("broker.raised_attempts", node["raised_attempts"], 1),
        losses=integer("broker.losses", node["losses"], 1),
        worker_timeout=number("broker.worker_timeout", node["worker_timeout"], above=0.0),
        unknown_kind_after=number("broker.unknown_kind_after", node["unknown_kind_after"], above=0.0),
        forget_after=number("broker.forget_after", node["forget_after"], above=0.0),
        peering=boolean("broker.peering", node["peering"]),
        durable=one_of("broker.durable", node["durable"], ("process", "machine")),
    )


def worker_settings(config: dict[str, Any]) -> WorkerSettings:
    """Check the settings of a worker. Raises UserError."""
    node = _section(config, "worker")
    memory, kinds = node["memory"], _kinds(node["kinds"], node["more_kinds"])
    return WorkerSettings(
        nameserver=check_address("nameserver.address", _section(config, "nameserver")["address"]),
        name=str(node["name"] or ""),
        children=integer("worker.children", node["children"], 1, 1024),
        kinds=kinds,
        memory=None if memory is None else integer("worker.memory", memory, 1),
        threads=integer("worker.threads", node["threads"], 1),
        ranks=integer("worker.ranks", node["ranks"], 1, 100_000),
        drain_seconds=number("worker.drain_seconds", node["drain_seconds"], low=0.0),
    )


def _kinds(names: Any, more: Any) -> dict[str, str]:
    if not isinstance(more, dict) or not all(isinstance(place, str) and ":" in place for place in more.values()):
        raise ConfigError("worker.more_kinds", more, "must be names with places, package.module:name or folder/file.py:name")
    for place in more.values():
        home = place.rpartition(":")[0]
        if home.endswith(".py") and not Path(home).is_file():
            raise ConfigError("worker.more_kinds", place, "there is no such file")
    known = KINDS | {str(name): place for name, place in more.items()}
    if names is None:
        return known
    if not isinstance(names, list) or not names:
        raise ConfigError("worker.kinds", names, f"must be a list of types of task out of {', '.join(sorted(known))}")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError("worker.kinds", unknown[0], f"no such type of task; {nearest(str(unknown[0]), known)}")
    return {name: known[name] for name in names}


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    node = config.get(name)
    if not isinstance(node, dict):
        raise UserError(f"{name}: it is missing in the config")
    return node
