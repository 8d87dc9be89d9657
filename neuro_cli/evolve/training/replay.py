"""Replays a peer's model from its run folder, its newest checkpoint and the records after it, even while the peer runs."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.evolve.identity import canonical
from neuro_cli.evolve.ledger.file import read_ledger
from neuro_cli.evolve.ledger.ledger import Ledger, origin
from neuro_cli.evolve.ledger.record import InvalidRecordError, decoded
from neuro_cli.evolve.peer_ledger import Snapshot
from neuro_cli.evolve.training.model import TASK, apply, check_model, identity_with_base, restore_snapshot, steps_of
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.centre_evaluation import centre_module
from neuro_cli.runner.options import Options

log = logging.getLogger(__name__)

ATTEMPTS = 4  # attempts to read a ledger and a checkpoint that fits it


def newest_snapshot(run: Path, ledger: Ledger | None = None) -> Snapshot | None:
    """Return the newest intact checkpoint of the run folder that fits ``ledger``, as a snapshot; None without one."""
    store = CheckpointStore(run, keep=1)
    try:
        generations = store.generations()
    except UserError as error:
        log.info("no snapshot: %s", error)
        return None
    for generation in reversed(generations):
        try:
            checkpoint = store.load(generation)
        except UserError as error:  # damaged, or removed meanwhile by a peer that works
            log.info("no snapshot: %s", error)
            continue
        head = bytes.fromhex(checkpoint.scalars["algo"]["head"])
        if ledger is None or ledger.head_at(generation) == head:
            task = {f"{TASK}{name}": tensor for name, tensor in checkpoint.part("task").items()}
            return Snapshot(generation, head, {**checkpoint.part("algo"), **task})
    return None


def _ledger_and_snapshot(run: Path, from_start: bool, iteration: int | None) -> tuple[Ledger, Snapshot | None]:
    """Read a ledger and a checkpoint that fits it, None without one; a peer may replace both meanwhile. Raises UserError."""
    for attempt in range(ATTEMPTS):
        ledger = _until(read_ledger(run), iteration)
        snapshot = None if from_start else newest_snapshot(run, ledger)
        if snapshot is not None or not ledger.base:
            return ledger, snapshot
        time.sleep(0.05 * attempt)
    raise UserError(f"{run}: its ledger begins at iteration {ledger.base}, and no checkpoint fits")


def restore_run(
    parts: Parts, run: Path, start: bytes, from_start: bool = False, iteration: int | None = None
) -> Ledger:  # fmt: skip
    """Bring ``parts`` to the state of the peer of the folder ``run``, and return its ledger. Raises UserError.

    ``start``: hash before the first iteration, by the config of ``parts``. ``from_start``: replay every record, even where a
    checkpoint would save some. ``iteration``: the state after so many of them, None for all.
    """
    ledger, snapshot = _ledger_and_snapshot(run, from_start, iteration)
    if ledger.base == 0 and ledger.head_at(0) != start:
        raise ConfigError(
            "cluster.from_run", run, "it is of another config (task, model, seed, sampler, selection, election, ...)"
        )
    if snapshot is not None:
        restore_snapshot(parts, snapshot)
    replay(parts, ledger)
    return ledger


def _until(ledger: Ledger, iteration: int | None) -> Ledger:
    """Return the first ``iteration`` iterations of ``ledger``. Raises ConfigError where it does not have them."""
    try:
        return ledger if iteration is None else ledger.until(iteration)
    except LookupError as error:
        raise ConfigError("iteration", iteration, f"must be from {ledger.base} to {ledger.next}, as the ledger has") from error


def replay(parts: Parts, ledger: Ledger) -> None:
    """Apply the records that the model of ``parts`` lacks."""
    steps, begun = steps_of(parts), time.perf_counter()
    count, columns = ledger.next - steps.iteration, len(parts.task.score_names)
    for iteration in range(steps.iteration, ledger.next):
        head = ledger.head_at(iteration + 1)
        assert head is not None
        try:
            record = decoded(ledger.records[iteration - ledger.base], columns)
        except InvalidRecordError as error:
            raise UserError(f"the ledger's record of iteration {iteration} is of another task: {error}") from error
        apply(parts, record, head)
    seconds = time.perf_counter() - begun
    if count:
        log.info("replayed %d iterations in %.2f s (%.0f/s)", count, seconds, count / seconds)


@dataclass(frozen=True)
class ReplayedPeer:
    """Model of a peer at the end of its ledger. ``seconds``: duration of the replay; ``digest``: SHA-256 of the parameters."""

    parts: Parts
    ledger: Ledger
    identity: dict[str, Any]
    seconds: float

    @property
    def iteration(self) -> int:
        return steps_of(self.parts).iteration

    @property
    def digest(self) -> str:
        return parameters_sha256(steps_of(self.parts).solution)

    def module(self) -> nn.Module:
        """Return the network with the task's statistics of observations, so that it works by itself."""
        module = centre_module(self.parts, steps_of(self.parts).solution, max(self.iteration - 1, 0))
        return self.parts.task.deployed(module)


@contextmanager
def replayed(
    run: Path, config: dict[str, Any], from_start: bool, iteration: int | None = None
) -> Iterator[ReplayedPeer]:  # fmt: skip
    """Replay the peer of a run folder, even while it works. ``config``: that of the folder. Raises UserError."""
    if "cluster" not in config:
        raise UserError(f"{run}: not a run of neuro evolve")
    parts = build(Options(config), SingleProcess())
    try:
        check_model(parts)
        steps = steps_of(parts)
        identity = identity_with_base(parts, config)
        steps.head = origin(canonical(identity))
        begun = time.perf_counter()
        ledger = restore_run(parts, run, steps.head, from_start, iteration)
        yield ReplayedPeer(parts, ledger, identity, time.perf_counter() - begun)
    finally:
        parts.threads.close()
