"""Marks on the tensors of a pass: which depend on the examples, which are a layer's outputs, what they are made of."""

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

LAYER = "_neuro_layer"  # attribute of the outputs of a step: its place among them
DATA = "_neuro_data"  # attribute of tensors that depend on the examples
USE = "_neuro_use"  # attribute of tensors: the use of a step's outputs that made them


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Tensors among arguments, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)


def marked(values: Iterable[Any], mark: str = DATA) -> bool:
    """Tell whether a tensor among ``values`` has a mark."""
    return any(hasattr(tensor, mark) for tensor in tensors(values))


def with_mark(made: Any, mark: str = DATA) -> Any:
    """``made`` after its tensors have got a mark."""
    for tensor in tensors([made]):
        setattr(tensor, mark, True)
    return made


def of_parameters(tensor: Tensor) -> bool:
    """Tell whether a tensor is made of parameters alone: one that comes of the examples may have a graph too."""
    return tensor.requires_grad and not hasattr(tensor, DATA)
