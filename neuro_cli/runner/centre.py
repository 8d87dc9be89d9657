"""Centre of a population as a module, and its metrics on the test set."""

import copy

import numpy as np
from torch import Tensor, nn

from neuro_cli.core.machine.threads import Threads
from neuro_cli.fabric.base import World, shares
from neuro_cli.runner.batch_norm import compute_statistics
from neuro_cli.runner.build import Parts
from neuro_cli.scoring.hidden import unfused
from neuro_cli.task.base import Task


def centre_module(parts: Parts, centre: Tensor, generation: int) -> nn.Module:
    """Model with parameters ``centre`` (M,) in evaluation mode, with the batch-norm statistics of ``generation``."""
    module = copy.deepcopy(parts.model)
    parts.layout.attach(module, centre.clone())
    compute_statistics(module, parts.task, generation)
    return module.eval()


@unfused()
def evaluate_centre(parts: Parts, module: nn.Module) -> dict[str, float]:
    """Metrics of ``module`` on the whole test set, by name."""
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
