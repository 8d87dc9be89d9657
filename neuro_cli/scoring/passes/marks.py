"""Marks on the tensors of a pass: which depend on the examples, which are a layer's outputs, which call made them."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

LAYER = "_neuro_layer"  # attribute of a step's outputs: the number of the step
DATA = "_neuro_data"  # attribute of tensors that depend on the examples
ONCE = "_neuro_once"  # attribute of rows that repeat others: these, and the number of writes before
USE = "_neuro_use"  # attribute of tensors computed from a step's outputs: the use that computed them


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def marked(values: Iterable[Any], mark: str = DATA) -> bool:
    """Return whether a tensor among ``values`` has a mark."""
    return any(hasattr(tensor, mark) for tensor in tensors(values))


def with_mark(value: Any, mark: str = DATA) -> Any:
    """Mark the tensors of ``value`` and return it."""
    for tensor in tensors([value]):
        setattr(tensor, mark, True)
    return value


def repeated(x: Tensor, times: int) -> Tensor:
    """Return ``x`` (B, ..) one after the other, (times B, ..), each in its memory format; :func:`once` gives ``x`` back."""
    result = repeat(x, times)
    if result is not x and not result.is_inference():  # in inference mode writes are not counted
        setattr(result, ONCE, (once(x), result._version))
    return result


def repeat(x: Tensor, times: int) -> Tensor:
    """Return :func:`repeated` for a tensor that compiled loops write to, which nobody counts."""
    if times == 1:
        return x
    return torch.cat([x] * times) if x.dim() == 4 else x.repeat(times, *[1] * (x.dim() - 1))


def once(x: Tensor) -> Tensor:
    """Return the rows that ``x`` repeats: what is computed from them alone is computed once. ``x`` where it was written to."""
    rows, writes = getattr(x, ONCE, (x, -1))
    return rows if writes >= 0 and x._version == writes else x


def of_parameters(tensor: Tensor) -> bool:
    """Return whether a tensor is computed from parameters alone. One that depends on the examples may have a graph too."""
    return tensor.requires_grad and not hasattr(tensor, DATA)
