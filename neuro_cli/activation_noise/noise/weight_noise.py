"""Noise of each example's own weights in a layer, and what it adds to the layer's outputs.

Legend: B examples, R passes side by side, n weights of the layer with its bias, o outputs, i inputs of an output, p positions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.activation_noise.derivatives.arguments import NAMES, Arguments
from neuro_cli.activation_noise.derivatives.mean_square import root_mean_square
from neuro_cli.activation_noise.recording.calls import LayerStep
from neuro_cli.sampler.patches import patches


class WeightNoise(ABC):
    """``gain``: root mean square of what noise of variance 1 adds to the outputs.

    ``used``: the weights as the layer uses them. A weight that is computed from a parameter (rounded, masked) has the noise.
    """

    gain: float
    used: list[Tensor]

    @abstractmethod
    def delta(self, noise: Tensor) -> Tensor:
        """Return what the noise (R, B, n) adds to the outputs, (R, *their shape)."""

    @property
    def width(self) -> int:
        """Number n of noise values."""
        return sum(tensor.numel() for tensor in self.used)

    def split(self, total: Tensor) -> list[Tensor]:
        """Split a vector (n,) into one tensor for each of ``used``."""
        parts = total.split([tensor.numel() for tensor in self.used])
        return [part.view(tensor.shape) for part, tensor in zip(parts, self.used, strict=True)]


class _Product(WeightNoise):
    """Noise of a weight (o, ..) that is multiplied with ``x`` (B, i, p), and of a bias, in a convolution."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, shape: torch.Size) -> None:
        self._x, self._weight, self._bias, self._shape = x, weight, bias is not None, shape
        self.used = [weight] if bias is None else [weight, bias]
        self.gain = math.sqrt(x.shape[1] * root_mean_square(x) ** 2 + self._bias) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        weights, biases = noise.split([self._weight.numel(), self.width - self._weight.numel()], dim=2)
        delta = weights.unflatten(2, (len(self._weight), -1)) @ self._x  # (R, B, o, p)
        if self._bias:
            delta = delta + biases[..., None]
        return self._like_outputs(delta)

    def _like_outputs(self, delta: Tensor) -> Tensor:
        """Return (R, B, o, p) in the shape of the outputs (B, o, ..)."""
        return delta.unflatten(3, self._shape[2:])


class LinearNoise(_Product):
    """Noise of a linear layer on (B, .., i)."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, outputs: Tensor) -> None:
        super().__init__(x.flatten(1, -2).transpose(1, 2) if x.dim() > 2 else x[:, :, None], weight, bias, outputs.shape)

    def _like_outputs(self, delta: Tensor) -> Tensor:
        return delta.transpose(2, 3).reshape(len(delta), *self._shape)


class AffineNoise(WeightNoise):
    """Noise of a norm's scale and shift: ``normal`` (B, ..) is the norm without them, ``shape`` theirs against it."""

    def __init__(self, normal: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> None:
        self._normal, self.used, self._shape = normal, [p for p in (weight, bias) if p is not None], shape
        self._scaled, self._shifted = weight is not None, bias is not None
        self.gain = math.sqrt(self._scaled * root_mean_square(normal) ** 2 + self._shifted) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        parts = [part.unflatten(2, self._shape) for part in noise.split([p.numel() for p in self.used], dim=2)]
        delta = parts.pop(0) * self._normal if self._scaled else parts[0].new_zeros(())
        return delta + parts[0] if self._shifted else delta


class JoinedNoise(WeightNoise):
    """Noise of a layer's weights and of the tensors that its result is added to or multiplied with, step by step.

    ``first``: noise of the layer's own weights, None where it has none; ``slope``: derivative of the outputs by its result, value
    by value; ``terms``: each tensor that is added or multiplied, and the derivative of the outputs by it.
    """

    def __init__(self, first: WeightNoise | None, slope: Tensor, terms: Sequence[tuple[Tensor, Tensor]]) -> None:
        self._first, self._slope, self._terms = first, slope, terms
        self.used = [*([] if first is None else first.used), *(tensor for tensor, _ in terms)]
        self._widths = [0 if first is None else first.width, *(tensor.numel() for tensor, _ in terms)]
        gains = [0.0 if first is None else first.gain * root_mean_square(slope), *(root_mean_square(by) for _, by in terms)]
        self.gain = math.hypot(*gains) or 1.0

    def delta(self, noise: Tensor) -> Tensor:
        own, *others = noise.split(self._widths, dim=2)
        delta = self._slope.new_zeros(()) if self._first is None else self._slope * self._first.delta(own)
        for part, (tensor, by) in zip(others, self._terms, strict=True):
            each = tensor.shape[1:] if tensor.dim() == by.dim() else tensor.shape  # the axis of examples is left out
            shape = (1,) * (by.dim() - 1 - len(each)) + tuple(each)
            delta = delta + part.reshape(*part.shape[:2], *shape) * by
        return delta


def weight_noise(layer: LayerStep) -> WeightNoise | None:
    """Return the noise of each example's own weights in a layer, None for a layer that cannot have it: complex ones too."""
    if layer.raw.is_complex():
        return None
    first, *rest = (*layer.earlier, layer)
    own = None
    if first.data is not None:  # the first step scales or shifts outputs that other calls get too: there is no product
        rest = [first, *rest]
    else:
        own = _call_noise(first)
        if own is None or not rest:
            return own
    # chain rule over the steps: each one scales the derivatives by the tensors of the steps before it
    slope, terms = torch.ones_like(layer.raw.detach()), list[tuple[Tensor, Tensor]]()
    for step in rest:
        by_data, other, by_other = _slopes(step)
        slope, terms = slope * by_data, [(tensor, by * by_data) for tensor, by in terms]
        if other is not None and other.requires_grad:
            if other.dim() == slope.dim() and len(other) != 1:
                return None  # the tensor differs between examples
            terms.append((other, by_other))
    return JoinedNoise(own, slope, terms)


def _slopes(step: LayerStep) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return the derivative of a step by the step before, its other tensor (None for none), and the derivative by that."""
    assert step.data is not None
    given, other = list(step.args), None
    for place, value in enumerate(given):
        if isinstance(value, Tensor):
            other = other if place == step.data else value
            numbers = value.detach() if value.is_floating_point() or value.is_complex() else value.to(step.raw.dtype)
            given[place] = numbers.expand(step.raw.shape).clone().requires_grad_()
    data = given[step.data]
    with torch.enable_grad():
        result = step.func(*given)
    by_data, by_other = torch.autograd.grad(result.sum(), [data, data if other is None else given[1 - step.data]])
    return by_data, other, by_other


def _call_noise(step: LayerStep) -> WeightNoise | None:
    """Return the noise of the weights of a single call of torch, None for a call without a product listed here."""
    func, args, kwargs, outputs = step.func, step.args, step.kwargs, step.raw
    if func not in NAMES:
        return None
    call = Arguments(func, args, kwargs)
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if not all(isinstance(part, Tensor) and part.requires_grad for part in (weight, bias) if part is not None):
        return None
    if func is F.linear:
        return LinearNoise(x, weight, bias, outputs) if x.dim() > 1 else None
    if func is F.conv2d:
        return _convolution_noise(call, outputs)
    return AffineNoise(call.normalised(x), weight, bias, call.affine_shape(x)) if call.is_norm else None


def _convolution_noise(call: Arguments, outputs: Tensor) -> WeightNoise | None:
    """Return the noise of a convolution's weights; None for one with groups, or padding that torch does not unfold."""
    x, weight, form = call["input"], call["weight"], call.geometry
    if call["groups"] != 1 or x.dim() != 4 or form is None:
        return None
    columns = patches(x, weight.shape[2:], form).flatten(1, 3).flatten(2)
    return _Product(columns, weight, call["bias"], outputs.shape)
