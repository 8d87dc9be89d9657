"""One member of a large network in its plain forward pass, each parameter's values computed where the pass uses them.

The reference of trials: a member as a vector of its own would be a copy of the centre.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C import _functorch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from neuro_cli.core.layout import LARGE, ParameterLayout, Place
from neuro_cli.scoring.passes.number_reads import name_of
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.torch_bodies import overwrites

PART = 2**19  # values of a matrix in memory at a time

Values = Callable[[Place, int, int], Tensor]  # values [first, last) of a parameter, in the order of the flat vector


class DenseMember(TorchFunctionMode):
    """Context in which ``module`` uses ``values`` in place of its evolved parameters."""

    def __init__(self, module: nn.Module, layout: ParameterLayout, values: Values) -> None:
        super().__init__()
        parameters = dict(module.named_parameters())
        self._places = {id(parameters[place.name]): place for place in layout.places}
        self._values = values

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear:
            return self._linear(*args, **kwargs)
        if getattr(func, "__name__", "") == "__get__":  # a shape, a type: nothing that depends on values
            made = func(*args, **kwargs)
            if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(made)):
                return made
        args, kwargs = tree_map(self._value, (args, kwargs))
        return func(*args, **kwargs)

    def _value(self, given: Any) -> Any:
        place = self._places.get(id(given))
        return given if place is None else place.view_of(self._values(place, 0, place.stop - place.start))

    def _linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        place = self._places.get(id(weight))
        if place is None:
            return F.linear(x, weight, self._value(bias))
        rows, width = weight.shape
        result = _by_rows(x, rows, width, lambda low, high: self._values(place, low * width, high * width).view(-1, width))
        return result if bias is None else result.add_(self._value(bias))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply a linear layer whose parameters may have another type than ``x``, some rows of a large one at a time."""
    if x.dtype == weight.dtype:
        return F.linear(x, weight, bias)
    matrix = weight.flatten(1)
    result = _by_rows(x, len(matrix), matrix.shape[1], lambda low, high: matrix[low:high].to(x.dtype))
    return result if bias is None else result.add_(bias.to(x.dtype))


def _by_rows(x: Tensor, rows: int, width: int, made: Callable[[int, int], Tensor]) -> Tensor:
    """Return x times a matrix whose rows are ``made`` some at a time."""
    result = x.new_empty(*x.shape[:-1], rows)  # first: small pieces between the large ones would leave holes in memory
    step = max(1, PART // width)
    for low in range(0, rows, step):
        high = min(low + step, rows)
        result[..., low:high] = F.linear(x, made(low, high))
    return result


def is_large(module: nn.Module, centre: Tensor) -> bool:
    """Return whether passes of ``module`` are to use the ``centre`` (M,) itself, since a copy of it counts."""
    # a scripted module's operations are met by no mode, and so could write to it
    return centre.numel() >= LARGE and not any(isinstance(part, torch.jit.ScriptModule) for part in module.modules())


class Unwritten(TorchFunctionMode):
    """Context in which a function that writes to the memory of ``kept`` raises Unsupported instead.

    A mode of the dispatcher would see scripted modules too, but imports torch's compiler: 150 MB and four seconds.
    """

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        room = kept.untyped_storage()
        self._memory = range(room.data_ptr(), room.data_ptr() + room.nbytes())  # a view may begin a storage of its own there

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        written = [args[:1] or [*kwargs.values()][:1]] if overwrites(func) else []
        if any(self._inside(leaf) for leaf in tree_leaves([*written, kwargs.get("out")])):
            raise Unsupported(f"{name_of(func)} writes to a parameter")
        return func(*args, **kwargs)

    def _inside(self, value: Any) -> bool:
        with torch._C.DisableTorchFunction():
            while isinstance(value, Tensor) and _functorch.is_functorch_wrapped_tensor(value):  # has no memory itself
                value = _functorch.get_unwrapped(value)
            plain = isinstance(value, Tensor) and value.layout == torch.strided
            return plain and value.untyped_storage().data_ptr() in self._memory
