"""Centre of a population as a module, and its metrics on the test set."""

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.module.copies import copied
from neuro_cli.fabric.base import World
from neuro_cli.fabric.shares import shares
from neuro_cli.runner.batch_norm import compute_statistics
from neuro_cli.runner.build import Parts
from neuro_cli.scoring.evaluation_chunks import TestChunks
from neuro_cli.scoring.isolation import Isolation
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.task.base import Task


def centre_module(parts: Parts, centre: Tensor, generation: int) -> nn.Module:
    """Return the model with parameters ``centre`` (M,) in evaluation mode, with the batch-norm statistics of ``generation``."""
    module = copied(parts.model)
    parts.layout.attach(module, centre.to(torch.float32, copy=True))
    compute_statistics(module, parts.task, generation)
    return module.eval()


@unfused()
def evaluate_centre(parts: Parts, module: nn.Module) -> dict[str, float]:
    """Return the metrics of ``module`` on the whole test set, by name."""
    isolation = parts.distribution.job.scorer.settings.isolation
    deployed = parts.task.deployed(module)
    return parts.task.evaluation(sums_over_chunks(parts.task, deployed, parts.world, parts.threads, isolation))


def sums_over_chunks(
    task: Task, module: nn.Module, world: World, threads: Threads, isolation: Isolation | None = None
) -> np.ndarray:
    """Evaluate on the test set: the sums (E,). Ranks and threads share the chunks; sums are added in one order.

    ``isolation``: state that passes of this module change, which no chunk may pass on to another.
    """
    chunks = task.evaluation_chunks
    share = range(*shares(chunks, world.size)[world.rank])
    rows = TestChunks(task, module, threads, isolation or Isolation()).sums(share)
    width = int(world.all_gather(np.array([len(next(iter(rows.values()), []))]), [1] * world.size).max())
    table = np.concatenate([rows[chunk] for chunk in share]) if share else np.empty(0)
    counts = [(b - a) * width for a, b in shares(chunks, world.size)]
    return world.all_gather(table, counts).reshape(chunks, width).sum(axis=0)
