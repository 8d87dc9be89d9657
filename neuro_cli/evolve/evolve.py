"""``neuro evolve``: found a cluster or join one, and work in it until all iterations are committed."""

import contextlib
import errno
import importlib.util
import logging
import os
import socket
from pathlib import Path
from typing import Any

from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError

log = logging.getLogger(__name__)

SECRET = "secret"
LOOPBACK = ("127.", "::1", "localhost")


def check_packages() -> None:
    """Raise UserError when the extra is not installed."""
    missing = [name for name in ("cryptography", "msgpack") if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(f"neuro evolve: {', '.join(missing)} is not installed: pip install 'neuro-cli[evolve]'")


def check(config: dict[str, Any]) -> None:
    """Check the keys of ``cluster``. Raises ConfigError."""
    cluster = config["cluster"]
    integer("cluster.local_peers", cluster["local_peers"], 1, 256)
    integer("cluster.port", cluster["port"], 0, 65535)
    integer("cluster.compact_every", cluster["compact_every"], 1)
    for key in ("grace", "deadline", "join_timeout"):
        number(f"cluster.{key}", cluster[key], above=0.0)
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
        raise ConfigError("cluster.from_run", cluster["from_run"], allowed)
    if cluster["force_new"] and cluster["from_run"] is None:
        raise ConfigError("cluster.force_new", True, "needs cluster.from_run=RUN, the folder of a surviving peer")


def listen(cluster: dict[str, Any]) -> socket.socket:
    """The socket at which others find this peer. Raises ConfigError."""
    try:
        family = socket.AF_INET6 if ":" in str(cluster["bind"]) else socket.AF_INET
        return socket.create_server((str(cluster["bind"]), cluster["port"]), family=family, backlog=128)
    except OverflowError as error:
        raise ConfigError("cluster.port", cluster["port"], str(error)) from error
    except OSError as error:
        named = isinstance(error, socket.gaierror)
        key = "bind" if named or error.errno == errno.EADDRNOTAVAIL else "port"
        reason = error.strerror if named or error.errno is None else os.strerror(error.errno)
        raise ConfigError(f"cluster.{key}", cluster[key], f"cannot listen at {cluster['bind']}: {reason}") from error


def advertised(cluster: dict[str, Any], listener: socket.socket) -> str:
    """HOST:PORT under which others reach this peer."""
    host, port = cluster["advertise"], listener.getsockname()[1]
    if host is None:
        host = cluster["bind"] if str(cluster["bind"]) not in ("0.0.0.0", "::") else socket.gethostname()
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def evolve(config: dict[str, Any], run: Path, shown: Path, quiet: bool = False) -> int:
    """Be a peer (and start others on this machine). Returns the exit code. Raises UserError."""
    check_packages()
    check(config)
    from neuro_cli.evolve.local import LocalPeers
    from neuro_cli.evolve.secret import given_secret, new_secret

    cluster = config["cluster"]
    secret = given_secret(cluster["secret_file"])
    if secret is None and cluster["join"] is not None:
        raise ConfigError("cluster.secret_file", None, "a cluster is joined with its secret (its founder's run folder has it)")
    listener = listen(cluster)
    address = advertised(cluster, listener)
    count = cluster["local_peers"]
    if config["threads"] is None:
        config["threads"] = max(1, len(os.sched_getaffinity(0)) // count)
    made = secret is None
    if secret is None:
        secret = new_secret()
    _keep_secret(run, secret)
    if not quiet:
        _announce(cluster, address, shown, secret if made else None)
    locals_ = None
    finished = False
    try:
        if count > 1:
            locals_ = LocalPeers(count - 1, run, config, address, secret)
        finished = _work(config, run, listener, address, secret, quiet)
    finally:
        if locals_ is not None:
            locals_.end(finished)
        listener.close()
    if not quiet:
        print(f"neuro: results in {shown}")
    return 0


def _keep_secret(run: Path, secret: str) -> None:
    """In the run folder, readable by its owner alone."""
    path = run / SECRET
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")


def _announce(cluster: dict[str, Any], address: str, shown: Path, made: str | None) -> None:
    near = str(cluster["bind"]).startswith(LOOPBACK)
    print(f"neuro: peer at {address}; others join by: neuro evolve cluster.join={address} cluster.secret_file={shown / SECRET}")
    if made is not None and not near:
        print(f"neuro: the cluster's secret, for other machines (NEURO_CLUSTER_SECRET): {made}")


def _work(config: dict[str, Any], run: Path, listener: socket.socket, address: str, secret: str, quiet: bool) -> bool:
    """Build the model, start the network, work. Whether all iterations were committed."""
    from rich.console import Console

    from neuro_cli.election.base import Election
    from neuro_cli.evolve.history import Snapshot
    from neuro_cli.evolve.identity import canonical, cluster_identity
    from neuro_cli.evolve.ledger import Ledger, origin
    from neuro_cli.evolve.model import check_model, snapshot_of, steps_of
    from neuro_cli.evolve.news import Settings
    from neuro_cli.evolve.node import Node
    from neuro_cli.evolve.replay import newest_snapshot, restore_run
    from neuro_cli.evolve.secret import contexts
    from neuro_cli.evolve.view import View
    from neuro_cli.evolve.worker import SeedPassing, Worker
    from neuro_cli.fabric.base import Alone
    from neuro_cli.runner.build import build, make
    from neuro_cli.runner.record import Record
    from neuro_cli.runner.stop import StopRequest
    from neuro_cli.runner.summary import parameters_sha256
    from neuro_cli.selection.base import Selection

    with StopRequest(config["time_limit"]) as stop:
        parts = build(config, Alone())
        check_model(parts)
        steps = steps_of(parts)
        cluster = config["cluster"]
        identity = cluster_identity(config, parameters_sha256(steps.centre))
        steps.head = origin(canonical(identity))
        initial = snapshot_of(parts)
        ledger = Ledger(steps.head)
        if cluster["from_run"] is not None:
            ledger = restore_run(parts, Path(cluster["from_run"]), steps.head)
        settings = Settings(
            address, cluster["join"], cluster["grace"], cluster["deadline"], cluster["late"], cluster["join_timeout"],
            config["generations"], cluster["local_peers"],
        )  # fmt: skip

        def snapshot() -> Snapshot | None:
            return newest_snapshot(run)

        selection, election = make(config, "selection", Selection), make(config, "election", Election)
        node = Node(
            settings, run, identity, ledger, election, selection, steps.sigma, contexts(secret), listener, snapshot,
            len(parts.task.score_names),
        )  # fmt: skip
        view = View(config["generations"], Console(quiet=True) if quiet else None)
        work = SeedPassing(parts)
        folder = Record(run, work, None, view)
        worker = Worker(work, node, selection, folder, view, initial)
        node.start()
        try:
            summary = worker.run(stop)
        finally:
            parts.threads.close()
            folder.close()
    return bool(summary["generations"] >= config["generations"])
