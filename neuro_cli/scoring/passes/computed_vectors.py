"""Vectors that a pass computes from evolved ones, number by number, such as ``1 + weight.float()`` of a norm.

Legend: S sides, D directions, C numbers of a vector.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

PLAIN = (bool, int, float, torch.dtype, torch.device, type(None))  # types of the other arguments
ELEMENTWISE: frozenset[Callable[..., Any]] = frozenset(
    (
        Tensor.to, Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16,
        torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__,
        torch.sub, torch.rsub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__,
        torch.mul, torch.multiply, Tensor.mul, Tensor.multiply, Tensor.__mul__, Tensor.__rmul__,
        torch.div, Tensor.div, Tensor.__truediv__, torch.neg, Tensor.neg, Tensor.__neg__, torch.abs, Tensor.abs,
        torch.exp, Tensor.exp, torch.sigmoid, Tensor.sigmoid, F.softplus,
    )
)  # fmt: skip


class Computed(NamedTuple):
    """A computed vector: of the centre (C,), and of all members (S or 1, D or 1, C)."""

    centre: Tensor
    members: Tensor


class ComputedVectors:
    """Vectors computed in one pass, ``known`` by identity. Layers compute theirs at each call, and get the first one again."""

    def __init__(self) -> None:
        self.known: dict[int, Computed] = {}  # equality of tensors compares numbers
        self._made: dict[Any, Computed] = {}

    def has_any(self, values: Sequence[Any]) -> bool:
        """Return whether one of ``values`` was computed here."""
        return any(id(value) in self.known for value in values)

    def compute(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], members: Callable[[Tensor], Tensor]
    ) -> Tensor | None:  # fmt: skip
        """Return what ``func`` makes of the centre's vector, and remember it with what it makes of all ``members``' values.

        None where ``func`` is not elementwise, or has other arguments than one vector and numbers.
        """
        given = [*args, *kwargs.values()]
        vectors = [value for value in given if isinstance(value, Tensor)]
        if func not in ELEMENTWISE or len(vectors) != 1 or vectors[0].dim() != 1:
            return None
        vector = vectors[0]
        if not all(value is vector or isinstance(value, PLAIN) for value in given):
            return None
        key = (func, len(args), *kwargs, *(id(value) if value is vector else (type(value), value) for value in given))
        if key not in self._made:
            made = func(*args, **kwargs)
            if made is vector:  # a conversion to its own type
                return vector
            values = members(vector)
            theirs = [values if value is vector else value for value in given]
            of_members = func(*theirs[: len(args)], **dict(zip(kwargs, theirs[len(args) :], strict=True)))
            self._made[key] = self.known[id(made)] = Computed(made, of_members)
        return self._made[key].centre
