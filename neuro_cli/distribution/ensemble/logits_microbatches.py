"""Logits of a minibatch in pieces: members compute the next piece while the sum of the last one is exchanged.

All pieces' backward passes come before the update, so that nothing is stale: up to rounding, the gradient is the minibatch's
(Huang et al. 2019, "GPipe", do this for layers). Only the exchange of the last piece may be visible, where it takes longer than
the backward pass of the first.
"""

import logging
from functools import partial

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.algo.ensemble import JointOutcome
from neuro_cli.algo.ensemble_member import Member
from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.ensemble.base import EnsembleContext
from neuro_cli.distribution.ensemble.in_flight import LogitsInFlight
from neuro_cli.fabric.shares import shares

log = logging.getLogger(__name__)


class LogitsMicrobatches(LogitsInFlight):
    """Exchange of logits by ``pieces`` of every minibatch, at least 2. Batch norm normalises each by itself."""

    name = "logits_microbatches"

    def __init__(self, pieces: int, encoding: str) -> None:
        super().__init__(encoding)
        self._pieces = integer("distribution.pieces", pieces, 2)

    def bind(self, job: EnsembleContext) -> None:
        super().bind(job)
        if self._pieces > job.batch_size:
            raise ConfigError("distribution.pieces", self._pieces, f"must be <= batch_size={job.batch_size}")
        if any(isinstance(part, _BatchNorm) for member in job.members.values() for part in member.module.modules()):
            log.warning("batch norm sees a piece of the minibatch only: losses differ from other methods'")

    def step(self, iteration: int) -> JointOutcome:
        job, members = self.job, list(self.job.members.values())
        for piece, (low, high) in enumerate(shares(job.batch_size, self._pieces)):
            batch = job.batch(iteration, low, high)
            logits = self.logits(iteration, batch.inputs, members, piece)
            self.push()
            self.begin(piece, batch.targets, logits)
        outcomes = []
        while self.flight:
            due, total = self.oldest()
            outcomes.append(self.outcome(iteration, due.targets, due.logits, total))
            back = partial(Member.back, iteration=iteration, gradient=outcomes[-1].gradient, piece=due.number)
            with job.clock.phase("update"):
                job.threads.map(back, members)
        with job.clock.phase("update"):
            job.threads.map(lambda member: member.step(iteration), members)
        loss, accuracy = sum(outcome.loss for outcome in outcomes), sum(outcome.accuracy for outcome in outcomes)
        return JointOutcome(loss, accuracy, torch.cat([outcome.gradient for outcome in outcomes]))
