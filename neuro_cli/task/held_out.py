"""Validation part of the training examples: the same for every caller, without any test example."""

import torch
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.noise import random_permutation
from neuro_cli.task.classification import Data, Split


def hold_out(data: Data, share: float, key: str) -> tuple[Split, Split]:
    """Return the (training, validation) parts of ``data.train``, with about ``share`` of every class held out.

    The choice depends only on the number of examples and their classes. Raises ConfigError for ``key`` if a part would be empty.
    """
    targets = data.train.targets
    shuffled = random_permutation(0, 0, len(targets))
    order = shuffled[targets[shuffled].argsort(stable=True)]
    held_out = _spread(len(order), share)
    if not 0 < int(held_out.sum()) < len(order):
        raise ConfigError(key, share, f"leaves no training or no validation example, of {len(order)}")
    # sorted into the order of the data: training shuffles its batches itself
    training, validation = order[~held_out].sort().values, order[held_out].sort().values
    return _part(data.train, training), _part(data.train, validation)


def _spread(count: int, share: float) -> Tensor:
    """Return (count,) bool: True at ``share`` of the places, evenly spread."""
    marks = (torch.arange(count + 1, dtype=torch.float64) * share).floor()
    return marks[1:] > marks[:-1]


def _part(split: Split, rows: Tensor) -> Split:
    return Split(split.images[rows], split.targets[rows])
