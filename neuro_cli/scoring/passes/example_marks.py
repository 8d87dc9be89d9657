"""Marks on the tensors of a pass: which depend on the examples, which are a layer's outputs, which call made them."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

LAYER = "_neuro_layer"  # attribute of a step's outputs: the number of the step
DATA = "_neuro_data"  # attribute of tensors that depend on the examples
USE = "_neuro_use"  # attribute of tensors computed from a step's outputs: the use that computed them


SEQUENCES = (list, tuple)


def tensors(values: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among arguments, also those in lists."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, SEQUENCES):
            found += tensors(value)
    return found


def marked(values: Iterable[Any], mark: str = DATA) -> bool:
    """Return whether a tensor among ``values`` has a mark."""
    return any(hasattr(tensor, mark) for tensor in tensors(values))


def with_mark(value: Any, mark: str = DATA, content: Any = True) -> Any:
    """Mark the tensors of ``value``, with ``content``, and return it."""
    for tensor in tensors([value]):
        setattr(tensor, mark, content)
    return value
