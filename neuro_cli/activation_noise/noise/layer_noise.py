"""Noise on a layer: what a draw adds to its outputs, and the gradient estimate of its parameters from the fitnesses.

Legend: B examples, T rewards of an example, n noise values of an example, R passes side by side.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from neuro_cli.activation_noise.derivatives.mean_square import root_mean_square
from neuro_cli.activation_noise.noise.weight_noise import WeightNoise, weight_noise
from neuro_cli.activation_noise.recording.calls import LayerStep
from neuro_cli.activation_noise.recording.output_mask import output_mask

FLOOR = 1e-2  # least root mean square that a relative scale refers to: float32 resolves no smaller changes of a loss


@dataclass(frozen=True)
class Axes:
    """Axes of a layer's outputs: axis ``examples`` has ``fold`` > 0 positions of each example. ``tokens``: T follow.

    ``strided``: the positions of an example lie B apart, as for (length, batch) in one axis; else they are neighbours.
    """

    examples: int
    fold: int
    tokens: bool
    strided: bool = False

    def to_rows(self, y: Tensor) -> Tensor:
        """Return ``y`` as (B, n), in the order of the noise."""
        moved = y.movedim(self.examples, 0)
        moved = moved.movedim(1, -1) if channels_last(y) else moved
        if self.strided:
            moved = moved.unflatten(0, (self.fold, -1)).transpose(0, 1).flatten(0, 1)
        return moved.reshape(len(moved) // self.fold, -1)

    def from_rows(self, noise: Tensor, like: Tensor) -> Tensor:
        """Return noise (R, B, n) as (R, *shape of ``like``). Neighbours in a row are neighbours in the memory of ``like``."""
        shape = list(like.movedim(self.examples, 0).shape)
        if channels_last(like):
            order = [shape[0], *shape[2:], shape[1]]
            return noise.reshape(len(noise), *order).movedim(-1, 2)
        if self.strided:
            noise = noise.unflatten(2, (self.fold, -1)).transpose(1, 2)
        return noise.reshape(len(noise), *shape).movedim(1, self.examples + 1)


def channels_last(y: Tensor) -> bool:
    """Return whether ``y`` is a batch of images with the channels of a pixel next to each other in memory."""
    return y.dim() == 4 and y.stride(1) == 1 and y.shape[1] > 1 and not y.is_contiguous()


def real(y: Tensor) -> Tensor:
    """Return complex ``y`` (..) as real and imaginary parts (.., 2), any other as it is."""
    return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y


class NoisyLayer:
    """A layer of a clean pass, with ``rewards`` T of each example, and its noise.

    Complex outputs are two real ones each, in a last axis of their own, but for what :meth:`delta` gives.

    ``on_weights``: noise of each example's own weights, else on the outputs; ``relative``: it has the root mean square of the
    outputs. ``call``: number of the call that gives them. ``node`` in the backward graph, None without one. What noise alone
    needs is computed at its first use.
    """

    def __init__(self, step: LayerStep, axes: Axes, on_weights: bool, rewards: int, relative: bool) -> None:
        self._step, self.axes, self._on_weights, self.rewards, self._relative = step, axes, on_weights, rewards, relative
        with torch.enable_grad():
            self._raw = real(step.raw)
        self.outputs, self._complex = self._raw.detach(), step.raw.is_complex()
        self.places, self._parameters, self.node, self.call = tuple(step.places), list(step.parameters), step.node, step.call
        self.examples = self.outputs.shape[axes.examples] // axes.fold
        self.sigma = 1.0

    @cached_property
    def weight_noise(self) -> WeightNoise | None:
        """Noise of each example's own weights, None for noise on the outputs."""
        return weight_noise(self._step) if self._on_weights else None

    @cached_property
    def scale(self) -> float:
        """Size of the noise in units of ``sigma``."""
        if not self._relative:
            return 1.0
        size = max(root_mean_square(self.outputs), FLOOR)
        return size if self.weight_noise is None else size / self.weight_noise.gain

    @cached_property
    def _mask(self) -> Tensor | None:
        return output_mask(self._step, smooth=self.node is not None)

    @property
    def width(self) -> int:
        """Number n of noise values of an example."""
        return self.outputs.numel() // self.examples if self.weight_noise is None else self.weight_noise.width

    @property
    def predicted(self) -> Tensor | None:
        """Derivative of the rewards by the outputs as the control variate predicts it, None for none."""
        return None if self.node is None or self.node.derivative is None else real(self.node.derivative.detach())

    def delta(self, noise: Tensor, sigma: float) -> Tensor:
        """Return what ``noise`` (R, B, n) adds to the outputs, (R, *their shape), complex where they are."""
        noise = (noise * (sigma * self.scale)).to(self.outputs.dtype)
        delta = self._on_outputs(noise) if self.weight_noise is None else self.weight_noise.delta(noise)
        return torch.view_as_complex(delta.contiguous()) if self._complex else delta

    def _on_outputs(self, noise: Tensor) -> Tensor:
        delta = self.axes.from_rows(noise, self.outputs)
        return delta if self._mask is None else delta * self._mask

    @property
    def by_tokens(self) -> bool:
        """Return whether each token has noise of its own."""
        return self.axes.tokens and self.weight_noise is None

    @property
    def outputs_a_reward(self) -> int | None:
        """Number of outputs for each reward, None where an output belongs to several rewards, is complex or inside a call."""
        alone = (self.rewards == 1 or self.axes.tokens) and not (self._complex or self._step.inner)
        return self.outputs.numel() // (self.examples * self.rewards) if alone else None

    def like_outputs(self, rows: Tensor) -> Tensor:
        """Return (B T, :attr:`outputs_a_reward`), in the order of the noise, in the shape of the outputs."""
        return self.axes.from_rows(rows.reshape(1, self.examples, -1), self.outputs)[0]

    def predicted_change(self, delta: Tensor) -> Tensor | float:
        """Return the change (R, B, T) of the rewards that the control variate predicts for ``delta`` (R, ..), 0 without one."""
        predicted = self.predicted
        if predicted is None:
            return 0.0
        product = (real(delta) * predicted).to(torch.float64)
        rows = [self.axes.to_rows(each).view(self.examples, self.rewards, -1).sum(-1) for each in product]
        return torch.stack(rows)

    def weighted(self, noise: Tensor, weights: Tensor) -> Tensor:
        """Weight a draw's ``noise`` (B, n) by ``weights`` (B, T). Noise of weights is summed over the examples, to (n,)."""
        if self.weight_noise is not None:
            return weights.sum(1) @ noise
        if not self.axes.tokens:
            return noise * weights.sum(1, keepdim=True)
        return (noise.unflatten(1, (self.rewards, -1)) * weights[:, :, None]).flatten(1)

    def gradients(self, total: Tensor | None, unit: float) -> list[Tensor | None]:
        """Return the estimate of each parameter at :attr:`places`, None for one that it does not reach.

        ``total``: sum of :meth:`weighted` over the draws, None for no draw. The control variate is added, times ``unit`` and
        sigma. The product of a layer's inputs with noise is taken once, for the sum, by autograd from outputs to parameters.
        """
        outputs, gradients = list[Tensor](), list[Tensor]()
        on_outputs = self.predicted
        on_outputs = None if on_outputs is None else on_outputs * (unit * self.sigma)
        if total is not None and self.weight_noise is not None:
            used = self.weight_noise.used
            outputs += used
            gradients += [part.to(tensor.dtype) for tensor, part in zip(used, self.weight_noise.split(total), strict=True)]
        elif total is not None:
            on_noise = self._on_outputs(total[None])[0]
            on_outputs = on_noise if on_outputs is None else on_outputs + on_noise
        if on_outputs is not None:
            outputs.append(self._raw)
            gradients.append(on_outputs.to(self._raw.dtype))
        if not outputs:
            return [None] * len(self.places)
        # the graph stays: each row of sums, and each slice of columns, asks for gradients
        return list(torch.autograd.grad(outputs, self._parameters, gradients, retain_graph=True, allow_unused=True))


def axes_of(small: tuple[int, ...], large: tuple[int, ...], examples: tuple[int, int], rewards: int) -> Axes | None:
    """Return the axes of outputs that have these shapes for so many examples, None where no single axis grows with them."""
    if len(small) != len(large):
        return None
    grown = [axis for axis, sizes in enumerate(zip(small, large, strict=True)) if sizes[0] != sizes[1]]
    if len(grown) != 1:
        return None
    (axis,) = grown
    fold, rest = divmod(small[axis], examples[0])
    if rest or large[axis] != fold * examples[1]:
        return None
    others = [size for place, size in enumerate(small) if place != axis]
    tokens = rewards > 1 and (fold == rewards or (fold == 1 and len(others) > 1 and others[0] == rewards))
    return Axes(axis, fold, tokens)
