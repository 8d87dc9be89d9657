"""Layers and networks of ``neuro bench layer``, as its config gives them."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from neuro_cli.core.checks import integer, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.factory.instantiate import make
from neuro_cli.runner.config import bounded, key

STEPS = ("draw", "forward", "update", "memory")


def steps_of(key: str, names: Any) -> list[str]:
    """Return the steps of a layer that are measured. Raises ConfigError."""
    if not isinstance(names, list) or not names:
        raise ConfigError(key, names, f"must be a list of some of {', '.join(STEPS)}")
    return [one_of(key, name, STEPS) for name in names]


@dataclass(frozen=True)
class Linear:
    features: list[Any] = key()
    examples: int = key(bounded(1))


@dataclass(frozen=True)
class Convolution:
    sizes: list[Any] = key()
    examples: int = key(bounded(1))


@dataclass(frozen=True)
class Networks:
    models: dict[str, Any] | None = key()
    examples: int = key(bounded(1))


@dataclass(frozen=True, kw_only=True)
class Layer:
    steps: list[str] = key(steps_of)
    linear: Linear
    convolution: Convolution
    network: Networks


@dataclass
class Case:
    """Module to be measured on ``examples`` inputs of ``shape``.

    ``largest``: values of its largest activation, 0: unknown; ``tokens``: inputs are integers below it, 0: they are real numbers.
    """

    name: str
    module: nn.Module
    shape: tuple[int, ...]
    examples: int
    largest: int
    tokens: int = 0


def cases(layer: Layer) -> list[Case]:
    """Return the layers and networks of the config. Raises UserError."""
    listed = [linear(size, layer.linear.examples) for size in layer.linear.features]
    listed += [convolution(size, layer.convolution.examples) for size in layer.convolution.sizes]
    for name, node in (layer.network.models or {}).items():
        network = make({"model": node}, "model", nn.Module)
        shape = tuple(getattr(network, "input_shape", (784,)))
        listed.append(Case(name, network, shape, layer.network.examples, 0, getattr(network, "input_tokens", 0)))
    if not listed:
        raise ConfigError("layer", "{}", "there is no layer and no network in it")
    return listed


def linear(size: Any, examples: int) -> Case:
    """Return a linear layer of [inputs, outputs], or with as many outputs as inputs for one number."""
    sizes = size if isinstance(size, list) else [size, size]
    inputs, outputs = _numbers("layer.linear.features", sizes, 2, "a number or [inputs, outputs]")
    module = nn.Linear(inputs, outputs, bias=False)
    return Case(f"linear {inputs}, {outputs}", module, (inputs,), examples, max(inputs, outputs))


def convolution(size: Any, examples: int) -> Case:
    """Return a 3x3 convolution of [channels in, channels out, side of the image]."""
    inner, outer, side = _numbers("layer.convolution.sizes", size, 3, "[channels in, channels out, side]")
    module = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
    return Case(f"conv {inner},{outer},{side}x{side}", module, (inner, side, side), examples, max(inner, outer) * side * side)


def _numbers(key: str, size: Any, count: int, allowed: str) -> list[int]:
    if not isinstance(size, list) or len(size) != count:
        raise ConfigError(key, size, f"each must be {allowed}")
    return [integer(key, value, 1) for value in size]
