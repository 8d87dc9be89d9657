"""Gradient of the loss by back-propagation for algo=sgd, each rank on its share of the batch."""

import numpy as np
import torch

from neuro_cli.algo.base import GradientAlgorithm
from neuro_cli.distribution.base import PopulationContext, StepReport
from neuro_cli.distribution.finite import candidate_error
from neuro_cli.fabric.base import shares


def gradient_step(job: PopulationContext, generation: int) -> StepReport:
    """Take one step on the mean gradient over the batch: ranks' gradients are all-reduced, weighted by their shares of it."""
    algo = job.algo
    assert isinstance(algo, GradientAlgorithm)
    low, high = shares(job.batch_size, job.world.size)[job.world.rank]
    batch = job.scorer.task.batch(generation, low, high)
    weight = job.scorer.task.share(generation, low, high)
    with job.clock.phase("forward"):
        loss, gradient = job.scorer.gradient(algo.centre, batch)
    # the loss travels with the gradient: one collective instead of two
    message = np.append(gradient.cpu().numpy() * np.float32(weight), np.float32(loss * weight))
    with job.clock.phase("communicate"):
        job.world.all_reduce(message)
    mean_loss = float(message[-1])
    if not np.isfinite(mean_loss):
        raise candidate_error(job.scorer.task, "the batch", generation, 0, -mean_loss)
    with job.clock.phase("update"):
        algo.tell_gradient(generation, torch.from_numpy(message[:-1]).to(gradient.device))
    return StepReport(-mean_loss, -mean_loss, mean_loss)
