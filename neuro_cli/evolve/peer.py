"""Peer of a cluster: its model, its network, its run folder, and the further peers that it starts."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from socket import socket
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console

from neuro_cli.core.machine.process import last_line, start, stop
from neuro_cli.election.base import Election
from neuro_cli.evolve.config import ClusterConfig
from neuro_cli.evolve.identity import canonical
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.network.messages import Limits
from neuro_cli.evolve.network.secret import VARIABLE
from neuro_cli.evolve.node import Node
from neuro_cli.evolve.node_thread import NodeThread
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.peer_state import PeerState
from neuro_cli.evolve.state_transfer import shapes_of
from neuro_cli.evolve.training.model import (
    check_model,
    first_member,
    identity_with_base,
    local_iterations,
    refuse_other_draws,
    snapshot_of,
    steps_of,
    stride,
)
from neuro_cli.evolve.training.replay import newest_snapshot, restore_run
from neuro_cli.evolve.training.worker import PeerWorker, SeedPassing
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.factory.instantiate import make
from neuro_cli.run_folder.progress import Progress
from neuro_cli.run_folder.record import RunRecord
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.runner.stop_signals import StopRequest
from neuro_cli.selection.base import Selection
from neuro_cli.tls.evolve_peer import Authority

log = logging.getLogger(__name__)
TERMINAL = "terminal.txt"  # file of a peer's output
PATIENCE = 15.0  # seconds to end after being asked


class Peer:
    """Peer of a cluster. All parts are built and checked before :meth:`enter` opens a connection. Raises UserError."""

    def __init__(
        self, options: Options, cluster: ClusterConfig, run: Path, listener: socket, address: str, secret: str, quiet: bool
    ) -> None:  # fmt: skip
        config = options.plain
        self._config, self._cluster, self._run, self._quiet = config, cluster, run, quiet
        self._selection = make(config, "selection", Selection)
        election = make(config, "election", Election)
        self._logger = options.logger  # a logger reports its errors before a connection is opened
        self.parts = build(options, SingleProcess())
        try:
            self._network = NodeThread(self._node(election, listener, address, secret))
        except BaseException:
            self.close()
            raise

    def _node(self, election: Election, listener: socket, address: str, secret: str) -> Node:
        parts, config, run = self.parts, self._config, self._run
        check_model(parts, self._selection)
        refuse_other_draws(parts, config)
        steps = steps_of(parts)
        identity = identity_with_base(parts, config)
        steps.head = origin(canonical(identity))
        self._initial = snapshot_of(parts)
        limits = limits_of(parts, self._initial, self._selection)
        ledger = Ledger(steps.head)
        if self._cluster.from_run is not None:
            ledger = restore_run(parts, self._cluster.from_run, steps.head)

        def snapshot() -> Snapshot | None:
            return newest_snapshot(run)

        state = PeerState(self._cluster, address, parts.config.generations, identity, election, Authority(secret))
        return Node(state, run, ledger, self._selection, steps.sigma, listener, snapshot, limits)

    def enter(self, stop: StopRequest) -> None:
        """Found a cluster, or join one. Raises UserError."""
        self._network.start()
        try:
            self._network.await_entry(stop.wanted)
        except BaseException:
            self._network.stop(leave=False)
            raise

    def close(self) -> None:
        """End the peer's threads that compute."""
        self.parts.threads.close()

    def work(self, stop: StopRequest, address: str, secret: str) -> None:
        """Start the further peers, and work until all iterations are committed or a stop is wanted."""
        config = self._config
        progress = Progress(config["generations"], console=Console(quiet=True) if self._quiet else None)
        work = SeedPassing(self.parts)
        count = self._cluster.local_peers - 1
        others = LocalPeers(count, self._run, config, address, secret) if count else None
        finished = False
        try:
            folder = RunRecord(self._run, config, work, self._logger, None, progress)
            try:
                summary = PeerWorker(work, self._network, self._selection, folder, self._initial).run(stop)
                finished = summary["generations"] >= config["generations"]
            finally:
                folder.close()
        finally:
            self._network.stop(leave=not finished)
            if others is not None:
                others.end(finished)


def limits_of(parts: Parts, initial: Snapshot, selection: Selection) -> Limits:
    """Return the limits of messages about the model of ``parts``; ``initial``: the model before the first iteration."""
    return Limits(
        population=parts.config.population,
        columns=len(parts.task.score_names),
        origin=initial.head,
        tensors=shapes_of(initial.tensors),
        tensor_bytes=sum(tensor.numel() * tensor.element_size() for tensor in initial.tensors.values()),
        first_member=lambda peer, iteration: first_member(peer, iteration, parts),
        local_iterations=local_iterations(parts),
        stride=stride(parts),
        pairs=selection.needs_pairs,
    )


class LocalPeers:
    """Peers 1 to ``count``, each in a folder of ``run``/peers. They join at ``address``."""

    def __init__(self, count: int, run: Path, config: dict[str, Any], address: str, secret: str) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder = run / "peers"
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        for number in range(1, count + 1):
            folder = self._folder / str(number)
            (folder / ".hydra").mkdir(parents=True)
            cluster = config["cluster"] | {"local_peers": 1, "join": address, "port": 0, "from_run": None, "force_new": False}
            OmegaConf.save(OmegaConf.create({**config, "cluster": cluster}), folder / ".hydra" / "config.yaml")
            with (folder / TERMINAL).open("wb") as terminal:
                self._processes.append(
                    start(
                        [sys.executable, "-P", "-m", "neuro_cli", "peer", str(folder)],
                        env=environment | {VARIABLE: secret},
                        stdin=subprocess.DEVNULL,
                        stdout=terminal,
                        stderr=terminal,
                    )
                )

    def end(self, finished: bool) -> None:
        """Wait for their end, and ask for it unless all work is ``finished`` and they end by themselves."""
        for number, code in enumerate(stop(*self._processes, patience=PATIENCE, ask=not finished), 1):
            if code:
                folder = self._folder / str(number)
                said = last_line(folder / TERMINAL) or f"see {folder}"
                log.warning("local peer %d ended with exit code %d: %s", number, code, said)
