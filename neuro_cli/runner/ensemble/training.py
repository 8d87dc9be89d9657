"""Training of an ensemble: every rank has its members; test evaluations and checkpoints are joint."""

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from neuro_cli.algo.ensemble import Ensemble
from neuro_cli.algo.ensemble_member import Member
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.machine.memory import keep_freed_memory
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.metric import Metric
from neuro_cli.core.schedule import Schedule, schedules_of
from neuro_cli.distribution.ensemble.base import EnsembleContext, EnsembleMethod
from neuro_cli.fabric.base import World
from neuro_cli.fabric.shares import shares
from neuro_cli.logger.columns import Row, training_row
from neuro_cli.run_folder.checkpoint import Checkpoint, CheckpointStore, Shard, shard_bytes, write_shard
from neuro_cli.run_folder.last_step import LastStep, remove
from neuro_cli.run_folder.model_file import is_dense
from neuro_cli.run_folder.record import RunRecord
from neuro_cli.runner.build import threads_of
from neuro_cli.runner.config import RunConfig
from neuro_cli.runner.consensus import collectively
from neuro_cli.runner.device import take_device
from neuro_cli.runner.ensemble.members import (
    JointPrediction,
    kinds_of,
    load_members,
    load_task_of,
    make_member,
    make_module,
    members_of,
    refuse_other_shapes,
)
from neuro_cli.runner.ensemble.metrics import evaluate_ensemble, metrics_of
from neuro_cli.runner.initial import Constants, refuse_unlike_ranks
from neuro_cli.runner.options import Options
from neuro_cli.runner.trainable import Trainable
from neuro_cli.task.classification import Classification

log = logging.getLogger(__name__)


class EnsembleTraining(Trainable):
    """Share of the members on one rank (all of them with batch_parallel), which the rank also writes to checkpoints."""

    def __init__(
        self, config: RunConfig, job: EnsembleContext, method: EnsembleMethod, parameters: int, algo: Ensemble,
        constants: dict[int, Constants],
    ) -> None:  # fmt: skip
        self.config, self.world, self.device, self.task = config, job.world, job.device, job.task
        self.threads, self.clock, self.candidates, self.method = job.threads, job.clock, job.size, method.name
        self._job, self._method, self._algo = job, method, algo
        share = range(*shares(job.size, job.world.size)[job.world.rank])
        self._share = {number: job.members[number] for number in share}
        self.parameters, self._constants = parameters, constants
        self._run, self._last_step = Path(), LastStep(Path(), 2)

    @property
    def schedules(self) -> Sequence[Schedule]:
        return schedules_of(self._algo)

    def step(self, generation: int) -> Row:
        outcome = self._method.step(generation)
        rate = next((member.rate_at(generation) for member in self._share.values()), None)
        return training_row(-outcome.loss, -outcome.loss, outcome.loss, train_accuracy=outcome.accuracy, rate=rate)

    def evaluate(self, generation: int) -> dict[str, float]:
        modules = {number: member.module for number, member in self._share.items()}
        assert isinstance(self._job.task, Classification)
        return evaluate_ensemble(modules, self._job.size, self._job.task, self.world, self.threads, self._job.dtype)

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        return metrics_of(self._job.size)

    def trained(self, generation: int) -> nn.Module:
        """Return all members; those of other ranks come from the files that these have just written."""
        return JointPrediction(load_members(self.config.plain, CheckpointStore(self._run, keep=1).load(generation)))

    def begin(self, run: Path) -> None:
        self._run, self._last_step = run, LastStep(run, self._method.staleness + 2)
        with collectively(self.world):
            if self.world.rank == 0 and self._algo.keep_last_step:
                self._last_step.clear()
        with collectively(self.world):
            refuse_unseen(run)

    def keep(self, generation: int, seconds: float) -> None:
        if self._algo.keep_last_step:
            contents = {number: self._shard(number) for number in self._share}
            self._last_step.write(generation, seconds, contents)

    def save(self, generation: int, scalars: dict[str, Any], record: RunRecord | None) -> None:
        """Write a checkpoint: every rank writes a shard for each of its members, rank 0 their list."""
        if self._method.replicates:
            self._compare(generation)
        shards: list[Shard] = []
        with collectively(self.world):
            if record is not None:
                record.refuse_other()
            for number in self._share:
                shards.append(write_shard(self._run, generation, f"member-{number}", self._shard(number)))
        lists = self._gathered(json.dumps([asdict(shard) for shard in shards]).encode())
        if record is not None:
            every = [Shard(**entry) for text in lists for entry in json.loads(text)]
            record.save(generation, {}, scalars, every)

    def _shard(self, number: int) -> bytes:
        state = self._share[number].state()
        state.scalars |= self._constants[number].scalars()
        return shard_bytes(state)

    def _compare(self, generation: int) -> None:
        """Raise RuntimeError when ranks with the same members differ, as processors of different kinds could."""
        digest = hashlib.sha256(b"".join(_digest(member) for member in self._job.members.values())).digest()
        if len(set(self._gathered(digest))) > 1:
            raise RuntimeError(f"the members of the ranks differ at generation {generation}: are their processors unlike?")

    def restore(self, checkpoint: Checkpoint) -> None:
        kinds = members_of(kinds_of(self.config.plain))
        for number, member in self._job.members.items():
            state = checkpoint.shard(f"member-{number}")
            refuse_other_shapes(kinds[number], member.module, state.part("model"))
            self._constants[number].refuse_other(member.module, state.scalars)
            member.restore(state)

    def parameters_sha256(self) -> str:
        digests = {number: _digest(member) for number, member in self._share.items()}
        return hashlib.sha256(b"".join(self._gathered(b"".join(digests.values())))).hexdigest()

    def facts(self) -> dict[str, Any]:
        return {"members": self._job.size}

    def finish(self) -> None:
        remove(self._run)

    def close(self) -> None:
        self._method.close()
        super().close()

    def _gathered(self, content: bytes) -> list[bytes]:
        """Return the bytes of all ranks, in rank order."""
        lengths = [int(length) for length in self.world.all_gather(np.array([len(content)], np.int64), [1] * self.world.size)]
        joined = self.world.all_gather(np.frombuffer(content, np.uint8), lengths).tobytes()
        ends = np.cumsum(lengths)
        return [joined[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _digest(member: Member) -> bytes:
    """Return the SHA-256 of a member's parameters and buffers."""
    content = hashlib.sha256()
    for name, tensor in sorted(member.module.state_dict().items()):
        if not is_dense(tensor):  # no file has it
            continue
        content.update(name.encode())
        content.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return content.digest()


def build_ensemble(options: Options, world: World) -> EnsembleTraining:
    """Build all parts of an ensemble's run, bound to each other. Raises UserError where they do not fit."""
    options.bind()
    config = options.config
    hint = "; algo.dtype sets what it computes in"
    for key, usual in (("layout", "shared_batch"), ("precision", f"float32{hint}"), ("weights", "float32")):
        chosen = getattr(config, key)
        if chosen != usual.removesuffix(hint):
            raise ConfigError(key, chosen, f"algo=ensemble takes {usual}")
    device = take_device(config.device, world)
    if device.type == "cpu":
        keep_freed_memory()
    algo = options.algo_of(Ensemble)
    method = options.method_of(EnsembleMethod)
    kinds = kinds_of(options.plain)
    kind_of = members_of(kinds)
    size = len(kind_of)
    numbers = method.held(size, world)
    task, parameters = load_task_of(kinds, options, device, world)
    threads, clock = Threads(threads_of(config.threads, world, device)), Clock()
    made = {number: make_member(kind_of[number], algo, task, config.seed, number, device, method.staleness) for number in numbers}
    for number in {kind_of[number].key: number for number in numbers}.values():
        again = make_module(kind_of[number], config.seed, number)  # made as a resume and the trained network make it
        Constants.of_member(again).refuse_other(again, made[number][1].scalars())
    members = {number: member for number, (member, _) in made.items()}
    if method.replicates:
        for member in members.values():
            refuse_unlike_ranks(member.module, world)
    job = EnsembleContext(
        world=world,
        members=members,
        size=size,
        task=task,
        clock=clock,
        threads=threads,
        batch_size=config.batch_size,
        dtype=algo.dtype,
        device=device,
    )
    method.bind(job)
    log.info("ensemble of %d members: %s", size, ", ".join(f"{kind.count} {kind.name}" for kind in kinds))
    constants = {number: each for number, (_, each) in made.items()}
    return EnsembleTraining(config, job, method, parameters, algo, constants)


def refuse_unseen(run: Path, patience: float = 10.0) -> None:
    """Raise UserError when this rank, which writes its own members, does not see the run folder within ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while not run.is_dir():
        if time.monotonic() > deadline:
            raise UserError(f"{run}: this rank does not see it; algo=ensemble needs a file system that all ranks share")
        time.sleep(0.1)  # seconds; file systems of clusters show new files late
