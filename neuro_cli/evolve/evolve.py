"""``neuro evolve``: found a cluster or join one, and work in it until all iterations are committed."""

import errno
import importlib.util
import logging
import os
import re
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.messages.install import install
from neuro_cli.core.messages.verbosity import say
from neuro_cli.evolve.config import HOSTS, ClusterConfig
from neuro_cli.runner.config import section

if TYPE_CHECKING:
    from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

LOOPBACK = ("127.", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")


def check_packages() -> None:
    """Raise UserError when the extra is not installed."""
    missing = [name for name in ("cryptography", "msgpack") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"neuro evolve: {', '.join(missing)} is not installed: {install('evolve')}")


def listen(cluster: ClusterConfig) -> socket.socket:
    """Open the socket that other peers connect to. Raises ConfigError."""
    try:
        family = socket.AF_INET6 if ":" in cluster.bind else socket.AF_INET
        listener = socket.create_server((cluster.bind, cluster.port), family=family, backlog=128)
    except OverflowError as error:
        raise ConfigError("cluster.port", cluster.port, str(error)) from error
    except OSError as error:
        named = error.errno is not None and error.errno < 0  # an error of getaddrinfo
        key = "bind" if named or error.errno == errno.EADDRNOTAVAIL else "port"
        reason = "no host has this name" if named else error.strerror if error.errno is None else os.strerror(error.errno)
        raise ConfigError(f"cluster.{key}", getattr(cluster, key), f"cannot listen at {cluster.bind}: {reason}") from error
    where = listener.getsockname()[0]
    if where in EVERYWHERE and cluster.bind not in EVERYWHERE:
        listener.close()
        raise ConfigError("cluster.bind", cluster.bind, f"means all addresses of this machine: say {where}, if that is meant")
    return listener


def advertised(cluster: ClusterConfig, listener: socket.socket) -> str:
    """Return the address HOST:PORT under which others reach this peer. Raises ConfigError."""
    host, port = cluster.advertise, listener.getsockname()[1]
    if host is None:
        host = cluster.bind if cluster.bind not in EVERYWHERE else socket.gethostname()
        if not re.fullmatch(HOSTS, host):
            raise ConfigError("cluster.advertise", None, f"this machine's name is {host!r}: say one that others can use")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def evolve(config: dict[str, Any], run: Path, shown: Path, save: Callable[[dict[str, Any]], None], quiet: bool = False) -> int:
    """Run a peer (and start others on this machine); ``save`` keeps its config. Returns the exit code. Raises UserError."""
    check_packages()
    from neuro_cli.evolve.network.secret import KEY, given_secret
    from neuro_cli.runner.options import Options

    cluster = section(ClusterConfig, config["cluster"], "cluster.")
    shared = max(1, usable_cores() // cluster.local_peers)
    options = Options({**config, "threads": shared if config["threads"] is None else config["threads"]})
    if options.config.ranks is not None:
        raise ConfigError("ranks", options.config.ranks, "neuro evolve has peers: cluster.local_peers")
    if options.config.checkpoint.best:
        raise ConfigError("checkpoint.best", True, "neuro evolve keeps the last ones: its ledger leads to any iteration")
    save({**options.plain, "threads": config["threads"]})
    secret = given_secret(cluster.secret_file)
    if secret is None and cluster.join is not None:
        raise ConfigError(KEY, None, "a cluster is joined with its secret (its founder's run folder has it)")
    listener = listen(cluster)
    try:
        _work(options, cluster, run, shown, listener, secret, quiet)
    except UserError:
        _take_back(run)
        raise
    finally:
        listener.close()
    if not quiet:
        say(f"neuro: results in {shown}")
    return 0


def _take_back(run: Path) -> None:
    """Remove the files of a peer that never joined."""
    from neuro_cli.evolve.ledger.file import NAME

    if not (run / "metrics.csv").exists():
        (run / NAME).unlink(missing_ok=True)


def _announce(cluster: ClusterConfig, address: str, new_file: Path | None) -> None:
    """Print the command with which others join; ``new_file``: of a new secret, None without one. Never show the secret."""
    from neuro_cli.evolve.network.secret import VARIABLE

    file = new_file or cluster.secret_file
    secret = f"cluster.secret_file={file}" if file is not None else f"(with the same {VARIABLE})"
    print(f"neuro: peer at {address}; others join by: neuro evolve cluster.join={address} {secret}", flush=True)
    if new_file is not None and not str(cluster.bind).startswith(LOOPBACK):
        print(f"neuro: machines that do not see {new_file} need a copy of it", flush=True)


def _work(
    options: "Options", cluster: ClusterConfig, run: Path, shown: Path, listener: socket.socket, secret: str | None, quiet: bool
) -> None:  # fmt: skip
    """Build all parts, enter the cluster, and only then write and print anything; work until the end."""
    from neuro_cli.evolve.network.secret import FILE, keep_secret, new_secret
    from neuro_cli.evolve.peer import Peer
    from neuro_cli.runner.stop_signals import StopRequest

    address, is_new = advertised(cluster, listener), secret is None
    secret = secret or new_secret()
    with (
        StopRequest(options.config.time_limit) as stop,
        closing(Peer(options, cluster, run, listener, address, secret, quiet)) as peer,
    ):
        peer.enter(stop)
        if is_new:
            keep_secret(run, secret)
        if not quiet:
            _announce(cluster, address, shown / FILE if is_new else None)
        peer.work(stop, address, secret)
