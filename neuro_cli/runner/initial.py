"""Comparison of a model's initial numbers between ranks, and of its constants between a run and its resume.

torch, numpy and Python draw from the run's seed while a model is built. A generator of the model's own, such as
``numpy.random.default_rng()``, draws other numbers in every process: each rank would then score another network.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.module.copies import attributes_of
from neuro_cli.fabric.base import World
from neuro_cli.run_folder.model_file import is_dense
from neuro_cli.runner.consensus import collectively

FIRST, PERIOD = 2**16, 1021  # numbers of a tensor that count, and positions that have their own weight
ALIKE = 1e-5  # relative difference of equal draws: a decomposition rounds by the processor
KINDS = (Tensor, nn.Parameter)  # classes of their own, such as torchao's, may not give their numbers in order
ADVICE = "draw them by torch, numpy.random or random, which the seed sets, and not by a generator of the model's own"


def fingerprint(tensors: Iterable[Tensor]) -> list[float]:
    """Return a fingerprint of initial parameters, a number >= 0 for each tensor, by sign and place of each of the first numbers.

    0 for tensors that are not compared: nested, quantised, without numbers, or of a class of their own.
    """
    return [_value(tensor) for tensor in tensors]


def _value(tensor: Tensor) -> float:
    if type(tensor) not in KINDS or tensor.is_meta or tensor.is_quantized or tensor.is_nested:
        return 0.0
    numbers = _first(tensor.detach())
    weights = 1 + torch.arange(len(numbers), dtype=torch.float64) % PERIOD / PERIOD
    return float((weights * (numbers.abs() + numbers / 2)).sum())


def _first(tensor: Tensor) -> Tensor:
    """Return the first numbers in float64, of a sparse tensor those that it holds."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce().values()
    elif tensor.layout is not torch.strided:
        tensor = tensor.values()
    numbers = tensor.reshape(-1)[:FIRST].cpu()
    return (torch.view_as_real(numbers).reshape(-1) if numbers.is_complex() else numbers).double().nan_to_num()


def same(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two fingerprints of initial parameters are of equal draws."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=ALIKE, abs_tol=ALIKE) for a, b in zip(one, other, strict=True)
    )


def of_constants(model: nn.Module) -> list[float]:
    """Return the fingerprint of buffers, then of frozen parameters: no checkpoint of the centre has them."""
    return fingerprint(chain(model.buffers(), (each for each in model.parameters() if not each.requires_grad)))


def of_attributes(model: nn.Module, made: bool) -> list[float]:
    """Return the fingerprint of tensors and arrays that the model has as attributes, which no file has.

    None for a model from a script (``made``), which may have called it: they can be caches.
    """
    values = () if made else (value for _, value in attributes_of(model))
    return fingerprint(value if isinstance(value, Tensor) else _as_tensor(value) for value in values)


def _as_tensor(array: np.ndarray) -> Tensor:
    """Return the first numbers of an array; none of one with objects, texts or numbers that torch does not know."""
    try:
        return torch.tensor(array.ravel()[:FIRST])
    except (TypeError, ValueError):
        return torch.empty(0)


def refuse_unlike_ranks(model: nn.Module, world: World, made: bool = False) -> None:
    """Raise ConfigError on every rank where ranks built other numbers. Every rank calls this.

    ``made``: as of :func:`of_attributes`.
    """
    if world.size == 1:
        return
    mine = fingerprint(chain(model.parameters(), model.buffers())) + of_attributes(model, made)
    with collectively(world):
        if not same(json.loads(world.broadcast(json.dumps(mine).encode())), mine):
            raise ConfigError("model", type(model).__name__, f"its numbers differ from those of rank 0: {ADVICE}")


@dataclass(frozen=True)
class Constants:
    """Fingerprints of a model as it was built: of :func:`of_constants` and :func:`of_attributes`. ``dense``: of which buffers.

    A checkpoint has the numbers of dense buffers.
    """

    constants: list[float]
    attributes: list[float]
    dense: list[bool]

    @classmethod
    def of(cls, model: nn.Module, made: bool) -> "Constants":
        return cls(of_constants(model), of_attributes(model, made), [is_dense(buffer) for buffer in model.buffers()])

    @classmethod
    def of_member(cls, model: nn.Module) -> "Constants":
        """Return those of an ensemble's member, whose shard has the numbers of all dense tensors, frozen parameters included."""
        frozen = (each for each in model.parameters() if not each.requires_grad)
        sparse = [tensor for tensor in chain(model.buffers(), frozen) if not is_dense(tensor)]
        return cls(fingerprint(sparse), of_attributes(model, False), [False] * len(sparse))

    def scalars(self) -> dict[str, list[float]]:
        """Return what a checkpoint has of the constant initial parameters."""
        return {"constants": self.constants, "attributes": self.attributes}

    def refuse_other(self, model: nn.Module, saved: Mapping[str, Any], restored: bool = False) -> None:
        """Raise ConfigError where ``model`` was built with other numbers than the run's, whose checkpoint has ``saved``.

        ``restored``: the numbers of its dense buffers come from the checkpoint.
        """
        for name, built in self.scalars().items():
            then, now = saved.get(name), built
            if restored and name == "constants" and then is not None and len(then) == len(now):
                then, now = ([value for value, skip in zip_longest(each, self.dense) if not skip] for each in (then, now))
            if then is not None and not same(then, now):  # None: an older run
                kinds = "buffers or frozen parameters" if name == "constants" else "tensors or arrays in attributes"
                raise ConfigError("model", type(model).__name__, f"its {kinds} differ from those of the run: {ADVICE}")
