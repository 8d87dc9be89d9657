"""Calls without parameters between layers: what they make of a small change around the clean pass, known without learning.

In float32, as the models of layers are.

Legend: B examples, h heads, T tokens, d values of a head.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from neuro_cli.scoring.activation.found import FoundFixed
from neuro_cli.scoring.activation.gate import slope_of


def attention_weights(
    query: Tensor, key: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """Weights (.., T, T) with which each query gets the values."""
    weights = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        later = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).triu(1)
        weights = weights.masked_fill(later, -torch.inf)
    if attn_mask is not None:
        allowed = attn_mask.dtype == torch.bool
        weights = weights.masked_fill(attn_mask.logical_not(), -torch.inf) if allowed else weights + attn_mask
    return weights.softmax(-1)


class Fixed(ABC):
    """``outputs``: what the call gave. ``sources``: numbers of layers and other fixed calls whose changes it passes on."""

    outputs: Tensor
    sources: tuple[int, ...]

    @abstractmethod
    def answer(self, changes: dict[int, Tensor]) -> Tensor:
        """The change of :attr:`outputs` from those that sources pass on, of which some may be missing."""

    @abstractmethod
    def taken_back(self, derivative: Tensor) -> dict[int, Tensor]:
        """Derivatives by what each source passes on from that by :attr:`outputs`."""

    def rows_of(self, change: Tensor) -> Tensor:
        """A change of :attr:`outputs` with the numbers of a place last."""
        return change

    def form_of(self, rows: Tensor) -> Tensor:
        """The form of :attr:`outputs` from that of :meth:`rows_of`."""
        return rows


class Attention(Fixed):
    """A call of attention, to first order, in those of queries, keys and values that are a view of one layer's outputs."""

    def __init__(self, found: FoundFixed, made: Tensor, sources: Sequence[int | None], whole: Sequence[Tensor | None]) -> None:
        """Take its output ``made`` (B, h, T, d), and for each argument the number and the outputs of its layer, None for none."""
        self.outputs = made
        options = {name: value for name, value in found.options.items() if name in ("attn_mask", "is_causal", "scale")}
        self._query, self._key, self._value = (part.float() for part in found.args)
        self._weights = attention_weights(self._query, self._key, **options)
        scale = options.get("scale")
        self._scale = 1 / math.sqrt(self._query.shape[-1]) if scale is None else scale
        self._views: list[_View | None] = []
        for part, number, outputs in zip(found.args, sources, whole, strict=True):
            self._views.append(None if number is None or outputs is None else _View(number, part, outputs))
        self.sources = tuple(sorted({view.number for view in self._views if view is not None}))

    def answer(self, changes: dict[int, Tensor]) -> Tensor:
        query, key, value = (None if view is None else view.of(changes) for view in self._views)
        made = self._value.new_zeros(self.outputs.shape) if value is None else self._weights @ value
        if query is None and key is None:
            return made
        logits = torch.zeros_like(self._weights)
        if query is not None:
            logits = logits + query @ self._key.transpose(-2, -1)
        if key is not None:
            logits = logits + self._query @ key.transpose(-2, -1)
        return made + self._through_softmax(logits) @ self._value

    def taken_back(self, derivative: Tensor) -> dict[int, Tensor]:
        derivative = derivative.float()
        logits = self._through_softmax(derivative @ self._value.transpose(-2, -1))
        parts = (logits @ self._key, logits.transpose(-2, -1) @ self._query, self._weights.transpose(-2, -1) @ derivative)
        made: dict[int, Tensor] = {}
        for view, part in zip(self._views, parts, strict=True):
            if view is not None:
                view.add(made, part)
        return made

    def _through_softmax(self, change: Tensor) -> Tensor:
        """Product with the derivative of the weights by the logits, which is symmetric, scaled."""
        weighted = self._weights * change
        return (weighted - self._weights * weighted.sum(-1, keepdim=True)) * self._scale

    def rows_of(self, change: Tensor) -> Tensor:
        return change.transpose(1, 2).flatten(2)

    def form_of(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.outputs.shape[1], -1)).transpose(1, 2)


class _View:
    """The numbers of ``part`` among the outputs ``whole`` of layer ``number``, whose memory it shares."""

    def __init__(self, number: int, part: Tensor, whole: Tensor) -> None:
        self.number, self._size = number, whole.shape
        self._place = (part.shape, part.stride(), part.storage_offset() - whole.storage_offset())

    def of(self, changes: dict[int, Tensor]) -> Tensor | None:
        """The part of the layer's change; None where it has none."""
        change = changes.get(self.number)
        return None if change is None else change.float().contiguous().as_strided(*self._place)

    def add(self, made: dict[int, Tensor], part: Tensor) -> None:
        """Add ``part`` to what is ``made`` of the layer."""
        if self.number not in made:
            made[self.number] = part.new_zeros(self._size)
        made[self.number].as_strided(*self._place).add_(part)


class OfSum(Fixed):
    """A function of single numbers that gets the sum of ``sources``."""

    def __init__(self, found: FoundFixed, made: Tensor, sources: Sequence[int]) -> None:
        self.outputs, self.sources = made, tuple(sources)
        places = [value for name, value in found.options.items() if name.isdigit()]
        options = {name: value for name, value in found.options.items() if not name.isdigit()}
        self._slope = slope_of(found.func, found.args[0], places, options).float()

    def answer(self, changes: dict[int, Tensor]) -> Tensor:
        there = [changes[source] for source in self.sources if source in changes]
        return sum(there[1:], there[0]) * self._slope

    def taken_back(self, derivative: Tensor) -> dict[int, Tensor]:
        return dict.fromkeys(self.sources, derivative * self._slope)
