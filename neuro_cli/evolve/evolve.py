"""``neuro evolve``: founds a cluster or joins one, and works in it until all iterations are committed."""

import errno
import importlib.util
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.install import install
from neuro_cli.core.machine.cores import usable_cores
from neuro_cli.core.verbosity import say

if TYPE_CHECKING:
    from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

LOOPBACK = ("127.", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")
HOSTS = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|[0-9A-Fa-f:.]{2,45}"


def check_packages() -> None:
    """Raise UserError when the extra is not installed."""
    missing = [name for name in ("cryptography", "msgpack") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"neuro evolve: {', '.join(missing)} is not installed: {install('evolve')}")


def check(config: dict[str, Any]) -> None:
    """Check the keys of ``cluster``. Raises ConfigError."""
    from neuro_cli.evolve.network.messages import MOST_LOCAL
    from neuro_cli.run_folder.config import is_run

    cluster = config["cluster"]
    integer("cluster.local_peers", cluster["local_peers"], 1, 256)
    integer("cluster.port", cluster["port"], 0, 65535)
    integer("cluster.compact_every", cluster["compact_every"], 1)
    integer("cluster.local_iterations", cluster["local_iterations"], 1, MOST_LOCAL)
    for key in ("grace", "deadline", "join_timeout"):
        number(f"cluster.{key}", cluster[key], above=0.0)
    for key in ("bind", "advertise"):
        value = cluster[key]
        if not (value is None and key == "advertise") and not (isinstance(value, str) and re.fullmatch(HOSTS, value)):
            raise ConfigError(f"cluster.{key}", value, "must be an address or the name of a host")
    if config["checkpoint"].get("best"):
        raise ConfigError("checkpoint.best", True, "neuro evolve keeps the last ones: its ledger leads to any iteration")
    one_of("cluster.late", cluster["late"], ("drop", "count"))
    boolean("cluster.force_new", cluster["force_new"])
    if cluster["join"] is not None:
        host, colon, port = str(cluster["join"]).rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError("cluster.join", cluster["join"], "must be HOST:PORT")
        if cluster["force_new"]:
            raise ConfigError("cluster.force_new", True, "a new cluster joins none: leave cluster.join null")
    if cluster["from_run"] is not None and cluster["join"] is None and not cluster["force_new"]:
        allowed = "its cluster may live on: join it, or found a new one of what this peer had by cluster.force_new=true"
        if not is_run(Path(str(cluster["from_run"]))):
            allowed = "no run of neuro evolve is there"
        raise ConfigError("cluster.from_run", cluster["from_run"], allowed)
    if cluster["force_new"] and cluster["from_run"] is None:
        raise ConfigError("cluster.force_new", True, "needs cluster.from_run=RUN, the folder of a surviving peer")


def listen(cluster: dict[str, Any]) -> socket.socket:
    """Open the socket that other peers connect to. Raises ConfigError."""
    try:
        family = socket.AF_INET6 if ":" in cluster["bind"] else socket.AF_INET
        listener = socket.create_server((cluster["bind"], cluster["port"]), family=family, backlog=128)
    except OverflowError as error:
        raise ConfigError("cluster.port", cluster["port"], str(error)) from error
    except OSError as error:
        named = error.errno is not None and error.errno < 0  # of getaddrinfo
        key = "bind" if named or error.errno == errno.EADDRNOTAVAIL else "port"
        reason = "no host has this name" if named else error.strerror if error.errno is None else os.strerror(error.errno)
        raise ConfigError(f"cluster.{key}", cluster[key], f"cannot listen at {cluster['bind']}: {reason}") from error
    where = listener.getsockname()[0]
    if where in EVERYWHERE and cluster["bind"] not in EVERYWHERE:
        listener.close()
        raise ConfigError("cluster.bind", cluster["bind"], f"means all addresses of this machine: say {where}, if that is meant")
    return listener


def advertised(cluster: dict[str, Any], listener: socket.socket) -> str:
    """Address HOST:PORT under which others reach this peer. Raises ConfigError."""
    host, port = cluster["advertise"], listener.getsockname()[1]
    if host is None:
        host = cluster["bind"] if cluster["bind"] not in EVERYWHERE else socket.gethostname()
        if not re.fullmatch(HOSTS, host):
            raise ConfigError("cluster.advertise", None, f"this machine's name is {host!r}: say one that others can use")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def evolve(config: dict[str, Any], run: Path, shown: Path, save: Callable[[dict[str, Any]], None], quiet: bool = False) -> int:
    """Run a peer (and start others on this machine); ``save`` keeps its config. Returns the exit code. Raises UserError."""
    check_packages()
    from neuro_cli.evolve.network.secret import KEY, given_secret
    from neuro_cli.runner.options import Options

    options = Options(_shared(config))
    if options.config.ranks is not None:
        raise ConfigError("ranks", options.config.ranks, "neuro evolve has peers: cluster.local_peers")
    check(options.plain)
    save({**options.plain, "threads": config["threads"]})
    cluster = config["cluster"]
    secret = given_secret(cluster["secret_file"])
    if secret is None and cluster["join"] is not None:
        raise ConfigError(KEY, None, "a cluster is joined with its secret (its founder's run folder has it)")
    listener = listen(cluster)
    try:
        _work(options, run, shown, listener, secret, quiet)
    except UserError:
        _take_back(run)
        raise
    finally:
        listener.close()
    if not quiet:
        say(f"neuro: results in {shown}")
    return 0


def _shared(config: dict[str, Any]) -> dict[str, Any]:
    """The config in which this machine's cores are shared among the peers on it."""
    peers = integer("cluster.local_peers", config["cluster"]["local_peers"], 1, 256)
    if config["threads"] is not None:
        return config
    return {**config, "threads": max(1, usable_cores() // peers)}


def _take_back(run: Path) -> None:
    """Remove the files of a peer that never took part."""
    from neuro_cli.evolve.ledger.file import NAME

    if not (run / "metrics.csv").exists():
        (run / NAME).unlink(missing_ok=True)


def _announce(cluster: dict[str, Any], address: str, kept: Path | None) -> None:
    """Print the command by which others join; ``kept``: the file of a new secret. The secret itself is never shown."""
    from neuro_cli.evolve.network.secret import VARIABLE

    file = kept or cluster["secret_file"]
    secret = f"cluster.secret_file={file}" if file is not None else f"(with the same {VARIABLE})"
    print(f"neuro: peer at {address}; others join by: neuro evolve cluster.join={address} {secret}", flush=True)
    if kept is not None and not str(cluster["bind"]).startswith(LOOPBACK):
        print(f"neuro: machines that do not see {kept} need a copy of it", flush=True)


def _work(options: "Options", run: Path, shown: Path, listener: socket.socket, secret: str | None, quiet: bool) -> None:
    """Build all parts and enter the cluster; only then write and print anything; work until the end."""
    from neuro_cli.evolve.network.secret import FILE, keep_secret, new_secret
    from neuro_cli.evolve.peer import peer_of
    from neuro_cli.runner.stop import StopRequest

    cluster = options.plain["cluster"]
    address, made = advertised(cluster, listener), secret is None
    secret = secret or new_secret()
    with StopRequest(options.config.time_limit) as stop, peer_of(options, run, listener, address, secret, quiet) as peer:
        peer.enter(stop)
        if made:
            keep_secret(run, secret)
        if not quiet:
            _announce(cluster, address, shown / FILE if made else None)
        peer.work(stop, address, secret)
