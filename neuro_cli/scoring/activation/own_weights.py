"""Noise of an example's own weights in a layer: what it adds to the layer's outputs.

Legend: B examples, R passes side by side, n weights of the layer (bias included), o outputs, i inputs of an output, p positions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.scoring.activation.arguments import NAMES, Arguments
from neuro_cli.scoring.activation.found import FoundLayer
from neuro_cli.scoring.operators import Unsupported, geometry_of


def root_mean_square(x: Tensor) -> float:
    return float(torch.linalg.vector_norm(x)) / math.sqrt(x.numel())


class OwnWeights(ABC):
    """``width``: n. ``gain``: root mean square that noise of variance 1 adds to the outputs.

    ``used``: the weights as the layer meets them. One that is made of a parameter (rounded, masked) gets the noise itself.
    """

    width: int
    gain: float
    used: list[Tensor]

    @abstractmethod
    def delta(self, noise: Tensor) -> Tensor:
        """Addition of the noise (R, B, n) to the outputs, (R, *their shape)."""

    @abstractmethod
    def split(self, total: Tensor) -> list[Tensor]:
        """A vector (n,) as one tensor for each of ``used``."""


class _Matrix(OwnWeights):
    """A weight (o, ..) that meets ``x`` (B, i, p), and a bias: as it is, a convolution."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, shape: torch.Size) -> None:
        self._x, self._weight, self._bias, self._shape = x, weight, bias is not None, shape
        self.used = [weight] if bias is None else [weight, bias]
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
        self._normal, self.used, self._shape = normal, [p for p in (weight, bias) if p is not None], shape
        self._scaled, self._shifted = weight is not None, bias is not None
        self.width = sum(parameter.numel() for parameter in self.used)
        self.gain = math.sqrt(self._scaled * root_mean_square(normal) ** 2 + self._shifted) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        parts = [part.unflatten(2, self._shape) for part in noise.split([p.numel() for p in self.used], dim=2)]
        made = parts.pop(0) * self._normal if self._scaled else parts[0].new_zeros(())
        return made + parts[0] if self._shifted else made

    def split(self, total: Tensor) -> list[Tensor]:
        parts = total.split([parameter.numel() for parameter in self.used])
        return [part.view(parameter.shape) for part, parameter in zip(parts, self.used, strict=True)]


class JoinedWeights(OwnWeights):
    """A layer's weights, and what its outputs (B, ..) are then added to or multiplied with.

    ``first``: weights of the layer itself, None where there are none; ``slope``: derivative of the outputs by its outcome;
    ``terms``: each tensor that is added or multiplied, and the derivative of the outputs by it, number by number like ``slope``.
    """

    def __init__(self, first: OwnWeights | None, slope: Tensor, terms: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._first, self._slope, self._terms = first, slope, terms
        self.used = [*([] if first is None else first.used), *(tensor for tensor, _ in terms)]
        self._widths = [0 if first is None else first.width, *(tensor.numel() for tensor, _ in terms)]
        self.width = sum(self._widths)
        gains = [0.0 if first is None else first.gain * root_mean_square(slope), *(root_mean_square(by) for _, by in terms)]
        self.gain = math.hypot(*gains) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        own, *others = noise.split(self._widths, dim=2)
        made = self._slope.new_zeros(()) if self._first is None else self._slope * self._first.delta(own)
        for part, (tensor, by) in zip(others, self._terms, strict=True):
            each = tensor.shape[1:] if tensor.dim() == by.dim() else tensor.shape  # without the axis of examples
            shape = (1,) * (by.dim() - 1 - len(each)) + tuple(each)
            made = made + part.reshape(*part.shape[:2], *shape) * by
        return made

    def split(self, total: Tensor) -> list[Tensor]:
        own, *others = total.split(self._widths)
        parts = [] if self._first is None else self._first.split(own)
        return [*parts, *(part.view(tensor.shape) for part, (tensor, _) in zip(others, self._terms, strict=True))]


def own_weights(layer: FoundLayer) -> OwnWeights | None:
    """Noise of an example's own weights in a layer; None where that is not done."""
    first, *rest = (*layer.earlier, layer)
    own = None
    if first.data is not None:  # it begins with what is added to, or multiplied with, outputs that others get too
        rest = [first, *rest]
    else:
        own = _of_call(first)
        if own is None or not rest:
            return own
    slope, terms = torch.ones_like(layer.raw.detach()), list[tuple[Tensor, Tensor]]()
    for step in rest:
        by_data, other, by_other = _slopes(step)
        slope, terms = slope * by_data, [(tensor, by * by_data) for tensor, by in terms]
        if other is not None and other.requires_grad:
            if other.dim() == slope.dim() and len(other) != 1:
                return None  # another number for each example
            terms.append((other, by_other))
    return JoinedWeights(own, slope, terms)


def _slopes(step: FoundLayer) -> tuple[Tensor, Tensor | None, Tensor]:
    """Derivative of a step's outcome by what it continues, the other tensor (None for none), and the derivative by that."""
    assert step.data is not None
    given, other = list(step.args), None
    for place, value in enumerate(given):
        if isinstance(value, Tensor):
            other = other if place == step.data else value
            given[place] = value.detach().expand(step.raw.shape).clone().requires_grad_()
    data = given[step.data]
    with torch.enable_grad():
        made = step.func(*given)
    by_data, by_other = torch.autograd.grad(made.sum(), [data, data if other is None else given[1 - step.data]])
    return by_data, other, by_other


def _of_call(step: FoundLayer) -> OwnWeights | None:
    """Noise of the weights of a single call of torch, with which it meets its input."""
    func, args, kwargs, outputs = step.func, step.args, step.kwargs, step.raw
    if func not in NAMES:
        return None
    call = Arguments(func, args, kwargs)
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if not all(part.requires_grad for part in (weight, bias) if part is not None):
        return None
    if func is F.linear:
        return LinearWeights(x, weight, bias, outputs) if x.dim() > 1 else None
    if func is F.conv2d:
        return _convolution(call, outputs)
    return AffineWeights(call.normal(x), weight, bias, call.affine_shape(x))


def _convolution(call: Arguments, outputs: Tensor) -> OwnWeights | None:
    x, weight = call["input"], call["weight"]
    if call["groups"] != 1 or x.dim() != 4:
        return None
    try:
        form = geometry_of(weight, call["stride"], call["padding"], call["dilation"], 1)
    except Unsupported:  # padding that torch does not unfold
        return None
    columns = F.unfold(x, weight.shape[2:], form.dilation, form.padding, form.stride)
    return _Matrix(columns, weight, call["bias"], outputs.shape)
