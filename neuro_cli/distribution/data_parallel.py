"""Data parallelism: every rank scores all members on its share of the batch and sends P partial scores.

It serves few members and large batches; with algo=sgd it is the usual data parallelism. Batch norm sees a rank's share only, so a
model with batch norm gets other scores than by the other methods (a log line reports it).
"""

import logging

import numpy as np
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.fabric.shares import shares

log = logging.getLogger(__name__)


class DataParallel(Replicated):
    """Method where each rank scores all members on B / N examples; the partial scores (N, P, C) are gathered.

    Raises ConfigError for more ranks than examples, ``layout=per_example``, and tasks whose members have their own examples.
    """

    name = "data_parallel"
    shares_members = False

    def __init__(self) -> None:
        super().__init__()

    def check(self) -> None:
        job = self.job
        if job.world.size > job.batch_size:
            raise ConfigError("ranks", job.world.size, f"must be <= {job.scorer.task.batch_key}={job.batch_size}")
        if job.scorer.task.own_examples:
            raise ConfigError("task.common_episodes", False, "distribution=data_parallel splits what all members share")
        if job.scorer.task.scored_by == "batch":
            raise ConfigError("task.fitness", job.scorer.task.fitness_is, "is a metric of a whole batch; data_parallel splits it")
        if job.scorer.own_examples:
            raise ConfigError("layout", "per_example", "distribution=data_parallel splits a shared_batch only")
        if job.world.size > 1 and any(isinstance(part, _BatchNorm) for part in job.scorer.module.modules()):
            log.warning("batch norm sees each rank's share of the batch only: fitnesses differ from distribution=local")

    def scores(self, generation: int, proposal: Proposal) -> np.ndarray:
        job = self.job
        low, high = shares(job.batch_size, job.world.size)[job.world.rank]
        sums = job.scorer.scores(proposal, generation, range(job.population), (low, high))
        with job.clock.phase("communicate"):
            gathered = job.world.all_gather(sums.ravel(), [sums.size] * job.world.size)
        total = gathered.reshape(job.world.size, *sums.shape).sum(axis=0)
        return job.scorer.task.means(total, job.batch_size)
