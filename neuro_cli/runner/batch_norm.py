"""Batch-norm statistics of a centre, computed from the last batches; no generation inherits them."""

import torch
from torch import Tensor, nn

from neuro_cli.core.module.copies import copied
from neuro_cli.run_folder.model_file import is_dense
from neuro_cli.scoring.candidate import moving_norms, scoring_mode
from neuro_cli.scoring.isolation import drawing
from neuro_cli.task.base import Task

STATISTICS_BATCHES = 8  # batches that the statistics are the mean over, at most


def compute_statistics(module: nn.Module, task: Task, generation: int) -> None:
    """Set the running statistics of ``module`` to the mean over the last 8 batches up to ``generation``.

    They are a function of the module's parameters and ``generation``, so they need no history and are the same on every rank.
    Norms that are frozen or in evaluation mode, other buffers and attributes do not change.
    """
    norms = [norm for norm in moving_norms(module) if norm.running_mean is not None]
    if not norms:
        return
    trial = copied(module)  # a pass may change more than statistics
    copies = [norm for norm in moving_norms(trial) if norm.running_mean is not None]
    scoring_mode(trial)
    for norm in copies:
        norm.reset_running_stats()
        norm.track_running_stats, norm.momentum = True, None  # torch: None is the plain mean over batches
    with torch.no_grad(), drawing(0, generation):
        for back in range(min(STATISTICS_BATCHES, generation + 1)):
            trial(task.batch(generation - back, 0, task.batch_size).inputs.clone())
    for norm, computed in zip(norms, copies, strict=True):
        for buffer, values in zip(norm.buffers(recurse=False), computed.buffers(recurse=False), strict=True):
            buffer.copy_(values)


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the module's dense buffers, running statistics included, for the checkpoint; sparse ones are constants."""
    return {name: buffer.detach().cpu() for name, buffer in module.named_buffers() if is_dense(buffer)}
