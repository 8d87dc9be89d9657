"""Linear layers of members, and activations between them, that are computed when their outcome is used.

So a compiled loop does all of them for a part of a member's rows, which stays in the second cache.

Legend: S sides, D directions, m rows of a member, I inputs and O outputs of a layer, M numbers of the flat vector.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.chain import ACTIVATIONS, Link, outcomes
from neuro_cli.core.kernels.compiled import own_chain_kernels

# the number of an activation, by the functions that compute it without options, or with these
CALLS: dict[Callable[..., Any], int] = {
    **dict.fromkeys((torch.tanh, Tensor.tanh), 1), **dict.fromkeys((torch.relu, Tensor.relu, F.relu), 2), F.gelu: 3,
}  # fmt: skip
OPTIONS = {"inplace": False, "approximate": "none"}
WEIGHTS = 2**18  # most of a layer: those of a chain are copied once a chunk
# what writes a linear layer's outcomes for x (S or 1, D, m, I) to its last argument
Products = Callable[[Tensor, Link, Tensor], None]


class _Step(NamedTuple):
    """A layer or an activation, memory for its outcome (S, D, m, O), and what the module got of it."""

    layer: Link | None
    activation: int
    out: Tensor
    given: list[weakref.ref[Tensor]]

    @property
    def is_read(self) -> bool:
        """Return whether the module can still use the outcome."""
        return any(one() is not None for one in self.given)


def activation_of(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return the number of the activation that a call is, 0 for any other call."""
    plain = len(args) == 1 and all(OPTIONS.get(name) == value for name, value in kwargs.items())
    return CALLS.get(func, 0) if plain else 0


class Postponed:
    """Layers on rows ``x`` (S or 1, D, m, I), with noise (D, M); outcomes have the dimensions ``lead`` before the last one.

    ``products``: what computes a layer by itself; ``watched``: outcomes are no numbers until they are computed, so a trial sees
    who reads them too early.
    """

    def __init__(
        self, x: Tensor, noise: Tensor, scales: Sequence[float], products: Products, lead: Sequence[int], watched: bool
    ) -> None:
        self._x, self._noise, self._scales, self._products = x, noise, scales, products
        self._lead, self._watched = lead, watched
        self._steps: list[_Step] = []

    def ends_in(self, value: Any) -> bool:
        """Return whether ``value`` is what the module got as the last outcome."""
        return bool(self._steps) and any(one() is value for one in self._steps[-1].given)

    @property
    def ends_in_layer(self) -> bool:
        return self._steps[-1].layer is not None

    def takes(self, weight: Tensor) -> bool:
        """Return whether a further layer of ``weight`` may follow."""
        return weight.numel() <= WEIGHTS and weight.shape[1] == self._steps[-1].out.shape[-1] and weight.dtype == self._x.dtype

    def layer(self, layer: Link) -> Tensor:
        """Add a layer, and return memory for its outcome."""
        return self._added(layer, 0, len(layer.weight))

    def activation(self, number: int) -> Tensor:
        """Add an activation, and return memory for its outcome."""
        return self._added(None, number, self._steps[-1].out.shape[-1])

    def _added(self, layer: Link | None, activation: int, outputs: int) -> Tensor:
        out = self._x.new_empty(len(self._scales), *self._x.shape[1:3], outputs)
        if self._watched:
            out.fill_(torch.nan)
        self._steps.append(_Step(layer, activation, out, []))
        return out.view(*self._lead, outputs)

    def seen(self, value: Tensor) -> Tensor:
        """Note, and return, what the module gets as the last outcome."""
        self._steps[-1].given.append(weakref.ref(value))
        return value

    def finish(self) -> None:
        """Compute the last outcome, and those before it that the module still has."""
        x, some = self._x, list[_Step]()
        for step in self._steps:
            some.append(step)
            if step is self._steps[-1] or step.is_read:
                self._compute(x, some)
                x, some = step.out, []

    def _compute(self, x: Tensor, steps: list[_Step]) -> None:
        """Compute the outcome of the last of some steps on ``x``; the bits do not depend on how many there are."""
        if len(steps) == 1 and steps[0].layer is not None:
            self._products(x, steps[0].layer, steps[0].out)
        elif x.dtype != torch.float32:
            for step in steps:
                if step.layer is None:
                    step.out.copy_(ACTIVATIONS[step.activation - 1][1](x))
                else:
                    self._products(x, step.layer, step.out)
                x = step.out
        elif steps[0].layer is None:
            own_chain_kernels.activated(x.numpy().reshape(-1), steps[0].activation, steps[0].out.numpy().reshape(-1))
            if len(steps) > 1:
                self._compute(steps[0].out, steps[1:])
        else:
            links = list[Link]()
            for step in steps:
                if step.layer is None:
                    links[-1] = links[-1]._replace(activation=step.activation)
                else:
                    links.append(step.layer)
            outcomes(links, x, self._noise, self._scales, steps[-1].out)
