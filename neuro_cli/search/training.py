"""Back-propagation of one network on the training part of a task's examples, and its scores on the other parts."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.core.checks import integer
from neuro_cli.core.metric import ACCURACY, LOSS
from neuro_cli.core.schedule import Schedule
from neuro_cli.search.config import TrainingConfig
from neuro_cli.search.slices import SlicedBatch, world_of_task
from neuro_cli.task.classification import Classification, Data, Split

OPTIMIZER, SCHEDULE = "training.optimizer", "training.lr_schedule"  # keys that errors name


@dataclass(frozen=True)
class Examples:
    """Examples for training a candidate: ``data`` of a task with its training examples split in two."""

    data: Data
    training: Split
    validation: Split


def trained(
    model: nn.Module, task: Classification, examples: Examples, optimizer: partial[Any], training: TrainingConfig, seed: int
) -> float:
    """Train ``model`` in place for ``training.epochs``. Returns the mean loss of the last epoch.

    The order of the examples is a function of ``seed``; examples left after the last full batch of an epoch begin the next one.
    Several ranks share the ``training.slices`` of a batch. Raises ConfigError for more slices than a batch has examples.
    """
    device = next(model.parameters()).device
    batch_size = min(training.batch_size, len(examples.training.targets))
    data = replace(examples.data, train=examples.training, test=examples.validation)
    task.take(data, input_shape=None, device=device, seed=seed, batch_size=batch_size)
    per_epoch = max(1, len(examples.training.targets) // batch_size)
    steps = training.epochs * per_epoch
    schedule = Schedule(**training.lr_schedule, key=SCHEDULE, generations=steps)
    stepper = ScheduledOptimizer(optimizer, schedule, list(model.parameters()), OPTIMIZER)
    model.train()
    slices = integer("training.slices", training.slices, 1, batch_size)
    batches = SlicedBatch(model, task, slices, world_of_task())
    total = 0.0
    for step in range(steps):
        loss = batches.backward(step, batch_size)
        stepper.step(step)
        total += loss.item() if step >= steps - per_epoch else 0.0
    return total / per_epoch


def scores(model: nn.Module, task: Classification, data: Data, split: Split) -> tuple[float, float]:
    """Return (accuracy, loss) of the trained ``model`` on ``split``."""
    device = next(model.parameters()).device
    task.take(replace(data, test=split), input_shape=None, device=device, seed=0, batch_size=1)
    model.eval()
    metrics = task.summarise(np.sum([task.evaluate_chunk(model, chunk) for chunk in range(task.evaluation_chunks)], axis=0))
    return metrics[ACCURACY.name], metrics[LOSS.name]
