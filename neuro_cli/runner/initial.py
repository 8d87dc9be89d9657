"""Comparison of what a model is built with between ranks, and of its constants between a run and its resume.

torch, numpy and Python draw from the run's seed while a model is built. A generator of the model's own, such as
``numpy.random.default_rng()``, draws other numbers in every process: each rank would then score another network.
"""

import json
import math
from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import World
from neuro_cli.runner.consensus import collectively

FIRST, PERIOD = 2**16, 1021  # numbers of a tensor that count, and positions that have their own weight
ALIKE = 1e-5  # relative difference of equal draws: a decomposition rounds by the processor
KINDS = (Tensor, nn.Parameter)  # classes of their own, such as torchao's, may not give their numbers in order
ADVICE = "draw them by torch, numpy.random or random, which the seed sets, and not by a generator of the model's own"


def fingerprint(tensors: Iterable[Tensor]) -> list[float]:
    """Return a number >= 0 for each tensor; it depends on the sign and the place of each of the first numbers.

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
    """Return whether two fingerprints are of equal draws."""
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=ALIKE, abs_tol=ALIKE) for a, b in zip(one, other, strict=True)
    )


def of_constants(model: nn.Module) -> list[float]:
    """Return the fingerprint of buffers and frozen parameters, which no checkpoint of the centre has."""
    return fingerprint(chain(model.buffers(), (each for each in model.parameters() if not each.requires_grad)))


def refuse_unlike_ranks(model: nn.Module, world: World) -> None:
    """Raise ConfigError on every rank where ranks built other numbers. Every rank calls this."""
    if world.size == 1:
        return
    mine = fingerprint(chain(model.parameters(), model.buffers()))
    with collectively(world):
        if not same(json.loads(world.broadcast(json.dumps(mine).encode())), mine):
            raise ConfigError("model", type(model).__name__, f"its numbers differ from those of rank 0: {ADVICE}")


def refuse_other_constants(model: nn.Module, saved: Sequence[float] | None, built: Sequence[float]) -> None:
    """Raise ConfigError where a run that is resumed has other buffers or frozen parameters; ``saved`` None: an older run."""
    if saved is not None and not same(saved, built):
        allowed = f"its buffers or frozen parameters differ from those of the run: {ADVICE}"
        raise ConfigError("model", type(model).__name__, allowed)
