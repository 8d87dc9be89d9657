"""Noise of an example's own weights in a layer: what it adds to the layer's outputs.

Legend: B examples, R passes side by side, n weights of the layer (bias included), o outputs, i inputs of an output, p positions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.scoring.operators import Unsupported, geometry_of


def root_mean_square(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x)) / math.sqrt(x.numel())


class OwnWeights(ABC):
    """``width``: n. ``gain``: root mean square that noise of variance 1 adds to the outputs."""

    width: int
    gain: float

    @abstractmethod
    def delta(self, noise: Tensor) -> Tensor:
        """Addition of the noise (R, B, n) to the outputs, (R, *their shape)."""

    @abstractmethod
    def split(self, total: Tensor) -> list[Tensor]:
        """A vector (n,) as one tensor for each parameter: weight, and bias where there is one."""


class _Matrix(OwnWeights):
    """A weight (o, ..) that meets ``x`` (B, i, p), and a bias: as it is, a convolution."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, shape: torch.Size) -> None:
        self._x, self._weight, self._bias, self._shape = x, weight, bias is not None, shape
        self.width = weight.numel() + (len(weight) if self._bias else 0)
        self.gain = math.sqrt(x.shape[1] * root_mean_square(x) ** 2 + self._bias)

    def delta(self, noise: Tensor) -> Tensor:
        weights, biases = noise.split([self._weight.numel(), self.width - self._weight.numel()], dim=2)
        made = weights.unflatten(2, (len(self._weight), -1)) @ self._x  # (R, B, o, p)
        if self._bias:
            made = made + biases[..., None]
        return self._laid_out(made)

    def _laid_out(self, made: Tensor) -> Tensor:
        """(R, B, o, p) in the form of the outputs (B, o, ..) of a convolution."""
        return made.unflatten(3, self._shape[2:])

    def split(self, total: Tensor) -> list[Tensor]:
        weight = total[: self._weight.numel()].view(self._weight.shape)
        return [weight, total[self._weight.numel() :]] if self._bias else [weight]


class LinearWeights(_Matrix):
    """A linear layer on (B, .., i)."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, outputs: Tensor) -> None:
        super().__init__(x.flatten(1, -2).transpose(1, 2) if x.dim() > 2 else x[:, :, None], weight, bias, outputs.shape)

    def _laid_out(self, made: Tensor) -> Tensor:
        return made.transpose(2, 3).reshape(len(made), *self._shape)


class AffineWeights(OwnWeights):
    """Scale and shift of a norm: ``normal`` (B, ..) is its outcome without them, ``shape`` theirs against it."""

    def __init__(self, normal: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> None:
        self._normal, self._given, self._shape = normal, [p for p in (weight, bias) if p is not None], shape
        self._scaled, self._shifted = weight is not None, bias is not None
        self.width = sum(parameter.numel() for parameter in self._given)
        self.gain = math.sqrt(self._scaled * root_mean_square(normal) ** 2 + self._shifted) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        parts = [part.unflatten(2, self._shape) for part in noise.split([p.numel() for p in self._given], dim=2)]
        made = parts.pop(0) * self._normal if self._scaled else parts[0].new_zeros(())
        return made + parts[0] if self._shifted else made

    def split(self, total: Tensor) -> list[Tensor]:
        parts = total.split([parameter.numel() for parameter in self._given])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self._given, strict=True)]


class _Call:
    """Arguments of a call by name."""

    def __init__(self, names: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._given = dict(zip(names.split(), args, strict=False)) | kwargs

    def __getitem__(self, name: str) -> Any:
        return self._given.get(name, DEFAULTS.get(name))


DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "eps": 1e-5, "training": False}
NAMES = {
    F.linear: "input weight bias",
    F.conv2d: "input weight bias stride padding dilation groups",
    torch.layer_norm: "input normalized_shape weight bias eps",
    torch.group_norm: "input num_groups weight bias eps",
    torch.batch_norm: "input weight bias running_mean running_var training momentum eps",
}


def own_weights(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], outputs: Tensor, parameters: Sequence[Tensor]
) -> OwnWeights | None:
    """Noise of an example's own weights in a call of ``func`` that gave ``outputs``; None where that is not done.

    ``parameters``: all that the outputs depend on, which must be the weight and the bias of the call, in this order.
    """
    if func not in NAMES:
        return None
    call = _Call(NAMES[func], args, kwargs)
    given = [part for part in (call["weight"], call["bias"]) if part is not None]
    if len(given) != len(parameters) or any(a is not b for a, b in zip(given, parameters, strict=True)):
        return None
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if func is F.linear:
        return LinearWeights(x, weight, bias, outputs) if x.dim() > 1 else None
    if func is F.conv2d:
        return _convolution(call, outputs)
    shape = (-1, *[1] * (x.dim() - 2))
    if func is torch.layer_norm:
        inner = tuple(call["normalized_shape"])
        normal, shape = F.layer_norm(x, inner, eps=call["eps"]), (*[1] * (x.dim() - 1 - len(inner)), *inner)
    elif func is torch.group_norm:
        normal = F.group_norm(x, call["num_groups"], eps=call["eps"])
    else:
        training = call["training"]
        mean, variance = (None, None) if training else (call["running_mean"], call["running_var"])
        normal = F.batch_norm(x, mean, variance, training=training, eps=call["eps"])
    return AffineWeights(normal, weight, bias, shape)


def _convolution(call: _Call, outputs: Tensor) -> OwnWeights | None:
    x, weight = call["input"], call["weight"]
    if call["groups"] != 1 or x.dim() != 4:
        return None
    try:
        form = geometry_of(weight, call["stride"], call["padding"], call["dilation"], 1)
    except Unsupported:  # padding that torch does not unfold
        return None
    columns = F.unfold(x, weight.shape[2:], form.dilation, form.padding, form.stride)
    return _Matrix(columns, weight, call["bias"], outputs.shape)
