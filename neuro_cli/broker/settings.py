"""Settings of a cluster's processes, checked; ``conf/broker_cluster.yaml`` names them."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.broker.addresses import check_address
from neuro_cli.broker.worker.kinds import KINDS
from neuro_cli.core.checks import boolean, number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import nearest
from neuro_cli.runner.config import bounded, choice, key, or_none, positive, section

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
        """True where the settings let no connection leave this machine."""
        return self.certificates is None or self.local


@dataclass(frozen=True)
class SecurityConfig:
    """Section ``security``. Without ``certificates`` and ``insecure`` the user's certificates for this machine count."""

    certificates: str | Path | None = key(default=None)
    insecure: bool = key(boolean, default=False)
    message_bytes: int = key(bounded(SMALLEST_MESSAGE, LARGEST_MESSAGE), default=Security.message_bytes)

    def check(self, prefix: str = "security.", warns: bool = True) -> Security | None:
        """Return the result of `settle`, or None where that reads the user's certificates. Raises ConfigError of ``prefix``."""
        folder = self.certificates
        if self.insecure:
            if folder is not None:
                allowed = f"{prefix}certificates={folder} says the opposite; give one of them"
                raise ConfigError(f"{prefix}insecure", "true", allowed)
            if warns:
                text = "every user of this machine can use this cluster, and so run its workers' kinds of task"
                log.warning("security.insecure=true: %s", text)
            return Security(None, self.message_bytes)
        if folder is None:
            return None
        if not Path(str(folder)).is_dir():
            raise ConfigError(f"{prefix}certificates", folder, f"there is no such folder; neuro search certs {folder} makes it")
        return Security(Path(str(folder)), self.message_bytes)

    def settle(self) -> Security:
        """Settle the certificates: without a folder those of the user, which the first call creates. Raises UserError."""
        from neuro_cli.tls.task_cluster import own_certificates

        return self.check() or Security(own_certificates(), self.message_bytes, local=True)


def _folder(key: str, value: Any) -> Path:
    return Path(str(value))


def _listens(key: str, value: Any) -> str:
    return check_address(key, value, zero=True)


@dataclass(frozen=True)
class NameserverSettings:
    address: str = key(_listens)
    timeout: float = key(positive, default=5.0)


@dataclass(frozen=True)
class BrokerSettings:
    """Settings of a broker; times in seconds. The comments in ``conf/broker_cluster.yaml`` say what each is."""

    nameserver: str
    address: str = key(_listens)
    folder: Path = key(_folder)
    queue_limit: int = key(bounded(1), default=100_000)
    attempts: int = key(bounded(1), default=3)
    raised_attempts: int = key(bounded(1), default=1)
    losses: int = key(bounded(1), default=10)
    worker_timeout: float = key(positive, default=10.0)
    unknown_kind_after: float = key(positive, default=30.0)
    forget_after: float = key(positive, default=86400.0)
    peering: bool = key(boolean, default=True)
    durable: str = key(choice("process", "machine"), default="process")


@dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker. ``kinds``: its types of task, each with the place of its function; ``memory`` in MiB."""

    nameserver: str
    name: str = key(lambda key, value: str(value or ""), default="")
    children: int = key(bounded(1, 1024), default=1)
    kinds: dict[str, str] = field(default_factory=lambda: dict(KINDS))
    memory: int | None = key(or_none(bounded(1)), default=None)
    threads: int = key(bounded(1), default=1)
    ranks: int = key(bounded(1, 100_000), default=1)
    drain_seconds: float = key(lambda key, value: number(key, value, low=0.0), default=3600.0)


SETTINGS: dict[str, type] = {"nameserver": NameserverSettings, "broker": BrokerSettings, "worker": WorkerSettings}


def settings_of(role: str, config: dict[str, Any]) -> Any:
    """Check the settings of a process, of the class that ``SETTINGS`` has for its role. Raises UserError."""
    more: dict[str, Any] = {}
    if role != "nameserver":
        more["nameserver"] = section(_Reached, config.get("nameserver"), "nameserver.").address
    if role == "worker":
        chosen = section(_Kinds, config.get(role), "worker.")
        more["kinds"] = _kinds(chosen.kinds, chosen.more_kinds)
    return section(SETTINGS[role], config.get(role), f"{role}.", **more)


@dataclass(frozen=True)
class _Reached:
    address: str = key(check_address)


@dataclass(frozen=True)
class _Kinds:
    kinds: Any = key()
    more_kinds: Any = key()


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
