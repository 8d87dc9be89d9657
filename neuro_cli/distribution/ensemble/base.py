"""Interface of methods that train an ensemble: they assign members to ranks and exchange logits or gradients.

Every rank sees the same minibatches. Methods that exchange logits differ in how the sum of all members' logits reaches every
rank; each rank then back-propagates through its own members only (:mod:`neuro_cli.algo.ensemble`).

Legend: N ranks, M members, B examples, K classes.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.ensemble import JointOutcome, joint_outcome
from neuro_cli.algo.ensemble_member import Member
from neuro_cli.core.checks import one_of
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import CandidateError, ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.distribution.ensemble.wire import ENCODINGS, LARGEST, wire_of, within
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import World
from neuro_cli.fabric.shares import shares
from neuro_cli.task.base import Batch, Task


@dataclass(frozen=True)
class EnsembleContext:
    """Parts of an ensemble's run on one rank. ``members``: this rank's members by number; ``size``: M."""

    world: World
    members: Mapping[int, Member]
    size: int
    task: Task
    clock: Clock
    threads: Threads
    batch_size: int
    dtype: torch.dtype
    device: torch.device

    def batch(self, iteration: int, low: int = 0, high: int | None = None) -> Batch:
        """Return examples [low, high) of an iteration's minibatch for the ensemble, by default all."""
        return self.task.batch(iteration, low, self.batch_size if high is None else high).to(self.dtype)


class EnsembleMethod(Method):
    """Base of the methods; :meth:`step` trains on one minibatch. ``staleness``: updates between forward and backward."""

    staleness = 0
    replicates = False  # whether every rank has all members

    def held(self, size: int, world: World) -> range:
        """Return the members that this rank trains. Raises ConfigError for more ranks than members."""
        if world.size > size:
            raise ConfigError("ranks", world.size, f"must be <= the {size} members of the ensemble (algo.size, algo.members)")
        return range(*shares(size, world.size)[world.rank])

    def bind(self, job: EnsembleContext) -> None:
        """Take the parts of the ensemble's run."""
        self.job = job

    @abstractmethod
    def step(self, iteration: int) -> JointOutcome:
        """Train all members on one minibatch. Raises CandidateError (on every rank) for logits that are not finite."""

    def close(self) -> None:
        """Finish pending exchanges of the ensemble."""

    def logits(self, iteration: int, inputs: Tensor, members: Iterable[Member], piece: int = 0) -> list[Tensor]:
        """Compute the logits (B, K) of ``members``, one forward pass per thread."""
        logits: dict[int, Tensor] = {}

        def run(member: Member) -> None:
            logits[member.number] = member.forward(iteration, inputs, piece)

        members = list(members)
        with self.job.clock.phase("forward"):
            self.job.threads.passes(run, members, repeats=False)
        return [logits[member.number] for member in members]

    def learn(self, iteration: int, gradient: Tensor) -> None:
        """Let every member of this rank learn from dL/df (B, K)."""
        with self.job.clock.phase("update"):
            self.job.threads.map(lambda member: member.learn(iteration, gradient), self.job.members.values())

    def refuse(self, iteration: int, logits: Sequence[Tensor]) -> None:
        """Raise CandidateError on every rank for the first member with unusable ``logits`` (of this rank)."""
        bad = [
            (member.number, float(own.flatten()[(own.abs() <= LARGEST).logical_not().flatten()][0]))
            for member, own in zip(self.job.members.values(), logits, strict=True)
            if not within(own)
        ]
        mine = np.array(bad[0] if bad else (np.inf, 0.0), np.float64)
        table = self.job.world.all_gather(mine, [2] * self.job.world.size).reshape(-1, 2)
        number, value = table[table[:, 0].argmin()]
        raise CandidateError(
            f"member {int(number)} of the ensemble gives a logit of {value:g} in iteration {iteration + 1} "
            f"(within +-{LARGEST:g} is allowed): lower algo.optimizer.lr, or look at the model's output"
        )


class LogitMethod(EnsembleMethod):
    """Base of the methods that exchange logits: each rank sends the sum over its own members and receives the sum over all.

    ``encoding``: fixed | float32 | float64, see :mod:`neuro_cli.distribution.ensemble.wire`. Raises ConfigError.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = one_of("distribution.encoding", encoding, ENCODINGS)

    def bind(self, job: EnsembleContext) -> None:
        super().bind(job)
        self.wire = wire_of(self._encoding, job.size)

    def finish(self, iteration: int, targets: Tensor, logits: Sequence[Tensor], total: np.ndarray) -> JointOutcome:
        """Learn from the sum of all members' logits."""
        outcome = self.outcome(iteration, targets, logits, total)
        self.learn(iteration, outcome.gradient)
        return outcome

    def outcome(self, iteration: int, targets: Tensor, logits: Sequence[Tensor], total: np.ndarray) -> JointOutcome:
        """Return the outcome of the sum of all members' logits for ``targets`` (B,), of the minibatch or a part of it."""
        mean = self.wire.decode(total, tuple(logits[0].shape), self.job.dtype)
        if mean is None:
            self.refuse(iteration, logits)
        assert mean is not None
        return joint_outcome(mean.to(self.job.device), targets, self.job.size, self.job.batch_size)


class LogitExchange(LogitMethod):
    """Base of the methods that wait for the sum before they continue."""

    def step(self, iteration: int) -> JointOutcome:
        batch = self.job.batch(iteration)
        logits = self.logits(iteration, batch.inputs, self.job.members.values())
        message = self.wire.encode(logits)
        with self.job.clock.phase("communicate"):
            total = self.exchange(message)
        return self.finish(iteration, batch.targets, logits, total)

    @abstractmethod
    def exchange(self, message: np.ndarray) -> np.ndarray:
        """Return the sum of all ranks' messages (B K,) on every rank."""
