"""Batch-norm statistics of a centre, computed from the last batches and never carried from generation to generation."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from neuro_cli.scoring.candidate import scoring_mode
from neuro_cli.task.base import Task

STATISTICS_BATCHES = 8


def compute_statistics(module: nn.Module, task: Task, generation: int) -> None:
    """Set the running statistics of ``module`` to the mean over the last 8 batches up to ``generation``.

    They are a function of the module's parameters and ``generation``, so they need no history and are the same on every rank.
    A module without batch norm stays as it is.
    """
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm) and part.track_running_stats]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches
    scoring_mode(module)
    with torch.no_grad():
        for back in range(min(STATISTICS_BATCHES, generation + 1)):
            module(task.batch(generation - back, 0, task.batch_size).inputs)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Buffers of the module (running statistics among them), for the checkpoint."""
    return {name: buffer.detach().cpu() for name, buffer in module.named_buffers()}
