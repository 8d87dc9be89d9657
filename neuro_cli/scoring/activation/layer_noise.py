"""Layers as noise on activations meets them: what a draw adds to a layer's outputs, and what the rewards say of its weights.

Legend: B examples, T rewards of an example, n numbers of noise of an example, R passes side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.scoring.activation.link import Link
from neuro_cli.scoring.activation.own_weights import OwnWeights, root_mean_square

FLOOR = 1e-2  # least root mean square that a relative scale refers to: float32 resolves no smaller steps of a loss


@dataclass(frozen=True)
class Axes:
    """Axes of a layer's outputs: each of the examples has ``fold`` > 0 places along axis ``examples``; ``tokens``: T follow.

    ``strided``: the places of an example lie B apart, as of (length, batch) in one axis; else they are neighbours.
    """

    examples: int
    fold: int
    tokens: bool
    strided: bool = False

    def forth(self, y: Tensor) -> Tensor:
        """``y`` as (B, n), in the order of the noise."""
        moved = y.movedim(self.examples, 0)
        moved = moved.movedim(1, -1) if channels_last(y) else moved
        if self.strided:
            moved = moved.unflatten(0, (self.fold, -1)).transpose(0, 1).flatten(0, 1)
        return moved.reshape(len(moved) // self.fold, -1)

    def back(self, noise: Tensor, like: Tensor) -> Tensor:
        """Noise (R, B, n) as (R, *shape of ``like``), with numbers that are neighbours in memory as neighbours."""
        shape = list(like.movedim(self.examples, 0).shape)
        if channels_last(like):
            order = [shape[0], *shape[2:], shape[1]]
            return noise.reshape(len(noise), *order).movedim(-1, 2)
        if self.strided:
            noise = noise.unflatten(2, (self.fold, -1)).transpose(1, 2)
        return noise.reshape(len(noise), *shape).movedim(1, self.examples + 1)


def channels_last(y: Tensor) -> bool:
    """Tell whether ``y`` is an image of several channels with those side by side in memory."""
    return y.dim() == 4 and y.stride(1) == 1 and y.shape[1] > 1 and not y.is_contiguous()


class NoisyLayer:
    """One use of parameters in a clean pass: a function of them and of the examples.

    ``raw``: its outputs, with autograd's graph from them to the parameters and no further; ``places`` and ``parameters``: of all
    in that graph. ``own``: how noise of an example's own weights enters, None where only outputs are perturbed.
    ``alive``: 0 for each of the outputs that reaches no later call, else 1; None for unknown. ``scale``: of the noise in units of
    sigma. ``width``: n. ``link``: its place in the chain of changes. ``predicted``: control variate, derivative of rewards by
    outputs in their form, None for none; ``sigma``: that of the noise.
    """

    def __init__(
        self, raw: Tensor, axes: Axes, places: Sequence[Place], parameters: Sequence[Tensor], own: OwnWeights | None,
        rewards: int, alive: Tensor | None = None, link: Link | None = None,
    ) -> None:  # fmt: skip
        self._raw, self.axes, self.rewards = raw, axes, rewards
        self.outputs = raw.detach()
        self.places, self._parameters, self.own = tuple(places), list(parameters), own
        self.examples = self.outputs.shape[axes.examples] // axes.fold
        self.width = own.width if own is not None else self.outputs.numel() // self.examples
        self.scale = self.sigma = 1.0
        self.link = link
        self.predicted: Tensor | None = None
        # noise where nothing is passed on would only be noise in the estimate
        self._alive = alive

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
        """Outputs for one reward, None where an output belongs to several rewards."""
        alone = self.rewards == 1 or self.axes.tokens
        return self.outputs.numel() // (self.examples * self.rewards) if alone else None

    def in_form(self, rows: Tensor) -> Tensor:
        """Numbers (B T, :attr:`size`) in the order of the noise in the form of the outputs."""
        return self.axes.back(rows.reshape(1, self.examples, -1), self.outputs)[0]

    def expected(self, delta: Tensor) -> Tensor | float:
        """Rewards (R, B, T) that the control variate expects of ``delta`` (R, *shape of the outputs); 0 where there is none."""
        if self.predicted is None:
            return 0.0
        product = (delta * self.predicted).to(torch.float64)
        rows = [self.axes.forth(each).view(self.examples, self.rewards, -1).sum(-1) for each in product]
        return torch.stack(rows)

    def gathered(self, noise: Tensor, weights: Tensor) -> Tensor:
        """``noise`` (B, n) with ``weights`` (B, T): of each example, or of the weights' own noise the sum (n,)."""
        if self.own is not None:
            return weights.sum(1) @ noise
        if not self.axes.tokens:
            return noise * weights.sum(1, keepdim=True)
        return (noise.unflatten(1, (self.rewards, -1)) * weights[:, :, None]).flatten(1)

    def gradients(self, total: Tensor | None, unit: float) -> list[Tensor | None]:
        """What ``total``, the sum over :meth:`gathered` of all draws, says of each parameter: the product of one layer, x^T g.

        With the control variate, which weighs ``unit`` times sigma. None for ``total``: of no draw.
        """
        made, gradients = list[Tensor](), list[Tensor]()
        on_outputs = None if self.predicted is None else self.predicted * (unit * self.sigma)
        if total is not None and self.own is not None:
            made += self.own.used
            gradients += [part.to(tensor.dtype) for tensor, part in zip(self.own.used, self.own.split(total), strict=True)]
        elif total is not None:
            on_noise = self._on_outputs(total[None])[0]
            on_outputs = on_noise if on_outputs is None else on_outputs + on_noise
        if on_outputs is not None:
            made.append(self._raw)
            gradients.append(on_outputs.to(self._raw.dtype))
        if not made:
            return [None] * len(self.places)
        return list(torch.autograd.grad(made, self._parameters, gradients, retain_graph=True, allow_unused=True))


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
