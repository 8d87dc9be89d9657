"""The generation loop of ``neuro train`` and ``neuro resume``, the same code on every rank; rank 0 alone writes."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from neuro_cli.algo.base import State
from neuro_cli.core.errors import CandidateError
from neuro_cli.distribution.base import Report
from neuro_cli.fabric.base import World
from neuro_cli.runner.agree import together
from neuro_cli.runner.build import Parts, build, make_network
from neuro_cli.runner.centre import buffers_of, centre_module, evaluate_centre
from neuro_cli.runner.checkpoint import Checkpoint
from neuro_cli.runner.record import Record
from neuro_cli.runner.stop import StopRequest
from neuro_cli.runner.summary import parameters_sha256

log = logging.getLogger(__name__)


@dataclass
class Progression:
    """Where a run stands: what a checkpoint restores beside the algorithm."""

    generation: int = 0  # completed
    seconds: float = 0.0  # spent in earlier sessions and this one
    metrics: dict[str, float] | None = None  # of the last look at the test set


def train(config: dict[str, Any], world: World, run: Path, checkpoint: Checkpoint | None) -> dict[str, Any] | None:
    """Run the generations that are left and return the summary (rank 0; None elsewhere).

    Raises UserError for bad input (on every rank) and CandidateError for a fitness that is not finite, after a
    checkpoint of the last whole generation.
    """
    with together(world):
        make_network(config).describe(world)
        parts = build(config, world)
    progression = Progression()
    if checkpoint is not None:
        restore(parts, progression, checkpoint)
    record = None
    with together(world):
        if world.rank == 0:
            record = Record(run, parts, progression.generation if checkpoint is not None else None)
    try:
        with StopRequest(config["time_limit"]) as stop:
            summary = _generations(parts, progression, record, stop)
            world.refuse_shortcut()
            return summary
    finally:
        parts.threads.close()
        if record is not None:
            record.close()


def _generations(parts: Parts, at: Progression, record: Record | None, stop: StopRequest) -> dict[str, Any] | None:
    config, world = parts.config, parts.world
    total, every = config["generations"], config["checkpoint"]["every"]
    begun, before = time.perf_counter(), at.seconds
    saved = at.generation if at.generation else None
    if saved is None:
        save(parts, at, record)
        saved = 0
    while at.generation < total:
        start = time.perf_counter()
        sent, received = world.traffic.sent, world.traffic.received
        try:
            report = parts.distribution.step(at.generation)
        except CandidateError:
            if saved != at.generation:
                save(parts, at, record)
            raise
        seconds = time.perf_counter() - start
        at.generation += 1
        at.seconds = before + time.perf_counter() - begun
        traffic = (world.traffic.sent - sent, world.traffic.received - received)
        last = at.generation == total
        looked = last or at.generation % config["evaluate"]["every"] == 0
        if looked:
            look(parts, at)
        if record is not None:
            record.row(_row(parts, at, report, seconds, traffic, looked))
        stopping = world.any(stop.wanted())
        if last or stopping or at.generation % every == 0:
            save(parts, at, record)
            saved = at.generation
        if stopping:
            if record is not None:
                record.stopped(at.generation, stop.reason)
            break
    if at.metrics is None or (at.generation < total and not looked):
        look(parts, at)
    at.seconds = before + time.perf_counter() - begun
    return record.finish(parts, at.generation, at.seconds, at.metrics or {}) if record is not None else None


def look(parts: Parts, at: Progression) -> None:
    """Score the centre on the test set."""
    module = centre_module(parts, parts.algo.centre, max(at.generation - 1, 0))
    at.metrics = evaluate_centre(parts, module)


def save(parts: Parts, at: Progression, record: Record | None) -> None:
    """Write a checkpoint (rank 0), after all ranks have compared their centres.

    Methods that send no centre rely on equal arithmetic everywhere; ranks on unlike processors could part unnoticed.
    """
    digest = np.frombuffer(bytes.fromhex(parameters_sha256(parts.algo.centre))[:8], np.int64)
    digests = parts.world.all_gather(digest, [1] * parts.world.size)
    if (digests != digests[0]).any():
        raise RuntimeError(f"the centres of the ranks differ at generation {at.generation}: are their processors unlike?")
    method = parts.distribution.state()
    if record is None:
        return
    state = parts.algo.state()
    tensors = {f"algo.{name}": tensor.cpu() for name, tensor in state.tensors.items()}
    tensors |= {f"distribution.{name}": tensor.cpu() for name, tensor in method.tensors.items()}
    tensors |= {f"task.{name}": tensor.cpu() for name, tensor in parts.task.state().items()}
    tensors["parameters"] = parts.algo.centre.cpu()
    if any(True for _ in parts.model.buffers()):  # else no statistics to take, and no copy of the model to make
        module = centre_module(parts, parts.algo.centre, max(at.generation - 1, 0))
        tensors |= {f"buffers.{name}": tensor for name, tensor in buffers_of(module).items()}
    scalars = {
        "algo": state.scalars,
        "distribution": method.scalars,
        "seconds": at.seconds,
        "metrics": at.metrics,
        "channels_last": parts.task.memory_format is torch.channels_last,  # how the flat parameters lie
    }
    record.save(at.generation, tensors, scalars)


def restore(parts: Parts, at: Progression, checkpoint: Checkpoint) -> None:
    """Continue from a checkpoint: the state of algorithm, distribution and task; noise and data order need none."""
    tensors = {name: tensor.to(parts.device) for name, tensor in checkpoint.part("algo").items()}
    parts.algo.restore(State(tensors, checkpoint.scalars["algo"]))
    # checkpoints of earlier versions have no such entry
    parts.distribution.restore(State(checkpoint.part("distribution"), checkpoint.scalars.get("distribution", {})))
    parts.task.restore(checkpoint.part("task"))
    at.generation, at.seconds = checkpoint.generation, checkpoint.scalars["seconds"]
    at.metrics = checkpoint.scalars["metrics"]
    if not torch.equal(parts.algo.centre.cpu(), checkpoint.tensors["parameters"]):
        raise AssertionError("the restored centre differs from the checkpoint's")


def _row(parts: Parts, at: Progression, report: Report, seconds: float, traffic: tuple[int, int], looked: bool) -> dict[str, Any]:
    phases = parts.clock.take()
    candidates = 1 if parts.algo.uses_gradient else parts.config["population"]
    metrics = at.metrics if looked and at.metrics else {}
    return {
        "generation": at.generation,
        "fitness_mean": report.fitness_mean,
        "fitness_best": report.fitness_best,
        "train_loss": report.loss,
        "test_accuracy": metrics.get("test_accuracy"),
        "seconds": seconds,
        **{f"seconds_{phase}": spent for phase, spent in phases.items()},
        "bytes_sent": traffic[0],
        "bytes_received": traffic[1],
        "candidates_per_second": candidates / seconds,
        **(parts.task.measures(report.means, candidates, seconds) if report.means is not None else {}),
        **{name: metrics.get(name) for name in parts.task.evaluation_names},
    }
