"""Evolved parameters and views of them, recognised among the arguments of a function."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout, Place


class Piece(NamedTuple):
    """Rows [low, high) and columns [first, last) of a weight (rows, inner), ``transposed`` or not."""

    low: int
    high: int
    first: int
    last: int
    transposed: bool


@dataclass(frozen=True)
class Use:
    """A parameter, or a view of one: ``tensor`` lies in the memory of ``parameter``."""

    tensor: Tensor
    parameter: Tensor
    place: Place

    @property
    def whole(self) -> bool:
        return self.tensor is self.parameter

    @property
    def offset(self) -> int:
        return int(self.tensor.storage_offset() - self.parameter.storage_offset())

    def piece(self) -> Piece | None:
        """Return the piece of a matrix that a two-dimensional view is, None for other views and other parameters."""
        tensor, parameter = self.tensor, self.parameter
        if tensor.dim() != 2 or parameter.dim() < 2 or not parameter.is_contiguous() or not parameter.numel():
            return None
        rows, inner = parameter.shape[:2]
        if rows * inner != parameter.numel():
            return None
        low, first = divmod(self.offset, inner)
        for transposed in (False, True):
            # a dimension of one thing may have any stride
            (high, last), strides = tensor.shape[:: -1 if transposed else 1], tensor.stride()[:: -1 if transposed else 1]
            fits = all(size == 1 or step == own for size, step, own in zip((high, last), strides, (inner, 1), strict=True))
            if fits and first + last <= inner and low + high <= rows:
                return Piece(low, low + high, first, first + last, transposed)
        return None


class Uses:
    """The evolved parameters of ``module``, and the views of them that a forward pass makes."""

    def __init__(self, module: nn.Module, layout: ParameterLayout) -> None:
        parameters = dict(module.named_parameters())
        # identities, as equality of tensors compares numbers. A view stays alive so that no other tensor gets its identity
        own = [(parameters[place.name], place) for place in layout.places]
        self._known = {id(parameter): Use(parameter, parameter, place) for parameter, place in own}

    def get(self, value: Any) -> Use | None:
        return self._known.get(id(value))

    def among(self, values: Iterable[Any]) -> Iterator[Use]:
        """Return the uses among arguments of a function, lists of tensors included."""
        for value in values:
            if isinstance(value, list | tuple):
                yield from self.among(value)
            elif id(value) in self._known:
                yield self._known[id(value)]

    def follow(self, made: Any, sources: list[Use]) -> bool:
        """Return whether all tensors that a function made of ``sources`` are views of them; these are recognised from then on."""
        tensors = [value for value in (made if isinstance(made, list | tuple) else [made]) if isinstance(value, Tensor)]
        found = [next((Use(t, s.parameter, s.place) for s in sources if _within(t, s.parameter)), None) for t in tensors]
        if not tensors or None in found:
            return False
        self._known.update({id(use.tensor): use for use in found if use is not None and use.tensor is not use.parameter})
        return True


def _within(view: Tensor, whole: Tensor) -> bool:
    """Return whether ``view`` lies in the memory of ``whole``."""
    if view.dtype != whole.dtype or view.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr():
        return False
    return 0 <= int(view.storage_offset() - whole.storage_offset()) < span(whole)


def span(x: Tensor) -> int:
    """Return places of memory from the first value of ``x`` to its last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
