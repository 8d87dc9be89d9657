"""Which calls of torch let a program go by the numbers of tensors, so that rows of many members would be decided on together."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.scoring.marks import DATA, tensors, with_mark
from neuro_cli.scoring.operators import Unsupported

# by the names of functions and methods: a number, a truth or an array for Python
READERS = frozenset(
    (
        "item", "tolist", "numpy", "is_nonzero", "equal", "allclose", "__float__", "__int__", "__bool__", "__index__",
        "__complex__", "__array__", "__contains__",
    )
)  # fmt: skip
# a tensor whose shape is a matter of numbers
SHAPED = frozenset(("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave"))
INDEXERS = frozenset(("__getitem__", "index"))
MASKS = (torch.bool, torch.uint8)


def name_of(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))


def reads(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Tell whether ``func`` of ``args``, tensors of members' rows among them, gives what depends on numbers in its form.

    A mask that is written through is none: what it gives has the form that it had.
    """
    name = name_of(func)
    if name in READERS or (name == "where" and len(args) == 1):
        return True
    if name in SHAPED:
        return name != "repeat_interleave" or any(map(of_rows, [*(args[1:] or args), *kwargs.values()]))
    return name in INDEXERS and any(index.dtype in MASKS and of_rows(index) for index in tensors(args[1:]))


def of_rows(value: Any) -> bool:
    """Tell whether a tensor depends on the rows of members, or lies in the memory of one that does."""
    if not isinstance(value, Tensor):
        return False
    return hasattr(value, DATA) or (value._base is not None and hasattr(value._base, DATA))


def follow(func: Callable[..., Any], made: Any, first: Any, rows: int) -> None:
    """Mark what ``func`` made of members' rows, and what it wrote to, its ``first`` argument.

    Raises Unsupported for a tensor without a dimension of so many ``rows``, or of several times as many: it is of all members.
    """
    for tensor in tensors([made]):
        if not any(size % rows == 0 for size in tensor.shape):
            raise Unsupported(f"{name_of(func)} makes one tensor {tuple(tensor.shape)} of the rows of all members")
        setattr(tensor, DATA, True)
    if (made is None or made is first) and isinstance(first, Tensor):
        with_mark([first, first._base])
