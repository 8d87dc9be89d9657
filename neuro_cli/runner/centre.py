"""The centre as a module: batch-norm statistics, and scores on the test set."""

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.core.threads import Threads
from neuro_cli.fabric.base import World, shares
from neuro_cli.runner.build import Parts
from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.task.base import Task

STATISTICS_BATCHES = 8


def centre_module(parts: Parts, centre: Tensor, generation: int) -> nn.Module:
    """The model with parameters ``centre`` (M,), in evaluation mode.

    Running statistics of batch norm are the mean over the last 8 batches up to ``generation``, taken at this centre: a
    function of centre and generation, so they need no history and are the same on every rank.
    """
    module = copy.deepcopy(parts.model)
    parts.layout.attach(module, centre.clone())
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    if norms:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the plain mean over batches
        scoring_mode(module)
        size = parts.task.batch_size
        with torch.no_grad():
            for back in range(min(STATISTICS_BATCHES, generation + 1)):
                module(parts.task.batch(generation - back, 0, size).inputs)
        originals = [part for part in parts.model.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
        for norm, original in zip(norms, originals, strict=True):
            norm.momentum = original.momentum
    return module.eval()


def evaluate_centre(parts: Parts, module: nn.Module) -> dict[str, float]:
    """Metrics of ``module`` on the whole test set."""
    return parts.task.evaluation(sums_over_chunks(parts.task, parts.task.deployed(module), parts.world, parts.threads))


def sums_over_chunks(task: Task, module: nn.Module, world: World, threads: Threads) -> np.ndarray:
    """Sums (E,) over the test set; chunks are shared among ranks and threads and added up in one order."""
    chunks = task.evaluation_chunks
    own = range(*shares(chunks, world.size)[world.rank])
    rows: dict[int, np.ndarray] = {}

    def run(chunk: int) -> None:
        rows[chunk] = task.evaluate_chunk(module, chunk)

    threads.map(run, own)
    width = int(world.all_gather(np.array([len(next(iter(rows.values()), []))]), [1] * world.size).max())
    table = np.concatenate([rows[chunk] for chunk in own]) if own else np.empty(0)
    counts = [(b - a) * width for a, b in shares(chunks, world.size)]
    return world.all_gather(table, counts).reshape(chunks, width).sum(axis=0)


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """The module's buffers (running statistics among them), for the checkpoint."""
    return {name: buffer.detach().cpu() for name, buffer in module.named_buffers()}
