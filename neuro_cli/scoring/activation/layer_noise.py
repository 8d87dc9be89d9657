"""Layers as noise on activations meets them: what a draw adds to a layer's outputs, and what the rewards say of its weights.

Legend: B examples, T rewards of an example, n numbers of noise of an example, R passes side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.scoring.activation.own_weights import OwnWeights, root_mean_square

FLOOR = 1e-2  # least root mean square that a relative scale refers to: float32 resolves no smaller steps of a loss


@dataclass(frozen=True)
class Axes:
    """Axes of a layer's outputs: the examples are ``fold`` > 0 neighbours each along axis ``examples``; ``tokens``: T follow."""

    examples: int
    fold: int
    tokens: bool

    def first(self, y: Tensor) -> Tensor:
        """``y`` as a view (B, fold, ..) in the order of its memory after the examples."""
        moved = y.movedim(self.examples, 0)
        return moved.unflatten(0, (-1, self.fold))

    def forth(self, y: Tensor) -> Tensor:
        """``y`` as (B, n), in the order of the noise."""
        moved = y.movedim(self.examples, 0)
        moved = moved.movedim(1, -1) if channels_last(y) else moved
        return moved.reshape(len(moved) // self.fold, -1)

    def back(self, noise: Tensor, like: Tensor) -> Tensor:
        """Noise (R, B, n) as (R, *shape of ``like``), with numbers that are neighbours in memory as neighbours."""
        shape = list(like.movedim(self.examples, 0).shape)
        if channels_last(like):
            order = [shape[0], *shape[2:], shape[1]]
            return noise.reshape(len(noise), *order).movedim(-1, 2)
        return noise.reshape(len(noise), *shape).movedim(1, self.examples + 1)


def channels_last(y: Tensor) -> bool:
    """Tell whether ``y`` is an image of several channels with those side by side in memory."""
    return y.dim() == 4 and y.stride(1) == 1 and y.shape[1] > 1 and not y.is_contiguous()


class NoisyLayer:
    """One use of parameters in a clean pass: a function of them and of the examples.

    ``raw``: its outputs, with autograd's graph from them to the parameters and no further; ``places`` and ``parameters``: of all
    in that graph. ``own``: how noise of an example's own weights enters, None where only outputs are perturbed.
    ``rectified``: only a rectifier gets the outputs. ``scale``: of the noise in units of sigma. ``width``: n.
    ``predicted`` (B, T, n / T): control variate, derivative of rewards by outputs, None for none; ``missed``: what the noise says
    beyond it, in its units; ``sigma``: that of the noise.
    """

    def __init__(
        self, raw: Tensor, axes: Axes, places: Sequence[Place], parameters: Sequence[Tensor], own: OwnWeights | None,
        rewards: int, rectified: bool = False,
    ) -> None:  # fmt: skip
        self._raw, self.axes, self.rewards = raw, axes, rewards
        self.outputs = raw.detach()
        self.places, self._parameters, self.own = tuple(places), list(parameters), own
        self.examples = self.outputs.shape[axes.examples] // axes.fold
        self.width = own.width if own is not None else self.outputs.numel() // self.examples
        self.scale = self.sigma = 1.0
        self.predicted: Tensor | None = None
        self.missed: Tensor | None = None
        # noise where a rectifier passes nothing on would only be noise in the estimate
        self._alive = (self.outputs > 0).to(self.outputs.dtype) if rectified and own is None else None

    def set_relative(self) -> None:
        """Set the scale with which noise adds the root mean square of the outputs to them."""
        size = max(root_mean_square(self.outputs), FLOOR)
        self.scale = size if self.own is None else size / self.own.gain

    def delta(self, noise: Tensor, sigma: float) -> Tensor:
        """Addition of ``noise`` (R, B, n) to the outputs, (R, *their shape)."""
        noise = (noise * (sigma * self.scale)).to(self.outputs.dtype)
        return self._on_outputs(noise) if self.own is None else self.own.delta(noise)

    def _on_outputs(self, noise: Tensor) -> Tensor:
        made = self.axes.back(noise, self.outputs)
        return made if self._alive is None else made * self._alive

    @property
    def size(self) -> int | None:
        """Numbers of noise for one reward, None where it is not on outputs or an output belongs to several rewards."""
        alone = self.rewards == 1 or self.axes.tokens
        return self.width // self.rewards if self.own is None and alone else None

    def predict(self, derivative: Tensor) -> None:
        """Set the control variate (B, T, n / T); there is none where a rectifier passes nothing on."""
        alive = None if self._alive is None else self.axes.forth(self._alive).to(derivative.dtype).view_as(derivative)
        self.predicted = derivative if alive is None else derivative * alive

    def expected(self, noise: Tensor, sigma: float) -> Tensor | float:
        """Rewards (R, B, T) that the control variate expects of ``noise`` (R, B, n); 0 where there is none."""
        if self.predicted is None:
            return 0.0
        return (noise.view(len(noise), *self.predicted.shape) * self.predicted).sum(-1).double() * (sigma * self.scale)

    def controlled(self, total: Tensor | None, unit: float) -> Tensor | None:
        """The sum over draws with the control variate, which weighs ``unit`` times sigma; None: of no draw."""
        if self.predicted is None:
            return total
        weight = unit * self.sigma
        self.missed = None if total is None else (total / weight).view_as(self.predicted)
        expected = self.predicted.reshape(len(self.predicted), -1) * weight
        return expected if total is None else total + expected

    def gathered(self, noise: Tensor, weights: Tensor) -> Tensor:
        """``noise`` (B, n) with ``weights`` (B, T): of each example, or of the weights' own noise the sum (n,)."""
        if self.own is not None:
            return weights.sum(1) @ noise
        if not self.axes.tokens:
            return noise * weights.sum(1, keepdim=True)
        return (noise.unflatten(1, (self.rewards, -1)) * weights[:, :, None]).flatten(1)

    def add_gradient(self, total: Tensor, out: Tensor) -> None:
        """Add to ``out`` (M,) what ``total``, summed over draws, says of the parameters: the product of one layer, x^T g."""
        if self.own is not None:
            made: Sequence[Tensor] = self.own.used
            gradients = [part.to(tensor.dtype) for tensor, part in zip(made, self.own.split(total), strict=True)]
        else:
            made, gradients = [self._raw], [self._on_outputs(total[None])[0].to(self._raw.dtype)]
        parts = torch.autograd.grad(made, self._parameters, gradients, retain_graph=True, allow_unused=True)
        for place, part in zip(self.places, parts, strict=True):
            if part is not None:
                place.view(out).add_(part)


def axes_of(small: tuple[int, ...], large: tuple[int, ...], examples: tuple[int, int], rewards: int) -> Axes | None:
    """Axes of outputs that have these shapes for so many examples; None where no one axis grows with them."""
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
