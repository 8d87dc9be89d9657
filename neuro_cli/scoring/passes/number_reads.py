"""Calls of torch that let a program depend on the numbers of tensors: one decision would then hold for rows of many members."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from neuro_cli.scoring.passes.example_marks import DATA, marked, tensors, with_mark
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.row_order import COUNTS, ORDER, SORTS, follow_counts, follow_order, sorts_rows

# names of functions and methods that give Python a number, a truth value or an array
READERS = frozenset(
    (
        "item", "tolist", "numpy", "is_nonzero", "equal", "allclose", "__float__", "__int__", "__bool__", "__index__",
        "__complex__", "__array__", "__contains__",
    )
)  # fmt: skip
# calls that read no value of a tensor
METADATA: frozenset[Callable[..., Any]] = frozenset((
    Tensor.dim, Tensor.size, Tensor.stride, Tensor.__len__, Tensor.numel, Tensor.nelement, Tensor.ndimension, torch.numel,
    Tensor.is_floating_point, torch.is_floating_point, Tensor.is_complex, torch.is_complex, Tensor.is_contiguous,
    Tensor.element_size, Tensor.get_device, Tensor.__hash__,
    *(getattr(Tensor, name).__get__ for name in (
        "shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_cuda", "is_cpu", "is_nested", "is_quantized",
        "is_sparse", "is_leaf", "is_meta", "is_mkldnn", "itemsize", "nbytes",
    )),
))  # fmt: skip
# a tensor whose shape is a matter of numbers
SHAPED = frozenset(("nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "repeat_interleave"))
INDEXERS = frozenset(("__getitem__", "index"))
MASKS = (torch.bool, torch.uint8)
# functions that go along a dimension, by the place of its number among the arguments
ALONG = dict.fromkeys(
    (
        "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "cummax", "cummin", "cumprod", "cumsum", "flip", "flipud",
        "gather", "index_select", "log_softmax", "logcumsumexp", "logsumexp", "max", "mean", "median", "min", "mode", "msort",
        "nanmean", "nansum", "prod", "softmax", "softmin", "sort", "std", "std_mean", "sum", "unfold", "var", "var_mean",
    ), 1,
) | dict.fromkeys(("diff", "kthvalue", "norm", "normalize", "quantile", "roll", "topk"), 2)  # fmt: skip
# the dimension of those that take one by themselves; softmax without one takes the first of one or three
DEFAULTS = {"argsort": -1, "diff": -1, "kthvalue": -1, "mode": -1, "sort": -1, "topk": -1, "flipud": 0, "msort": 0, "roll": 0}
UNSAID = frozenset(("log_softmax", "softmax", "softmin"))


def name_of(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))


def reads(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Return whether the shape of the result of ``func`` depends on numbers of members' rows in ``args``.

    A write through a mask does not: the result keeps its shape.
    """
    name = suspect(func)
    if name is None:  # nearly always, and at each operation
        return False
    if name == "where":
        return len(args) == 1
    if name in SHAPED:
        return name != "repeat_interleave" or any_of_rows([*(args[1:] or args), *kwargs.values()])
    if name in INDEXERS:
        return any(index.dtype in MASKS and of_rows(index) for index in tensors(args[1:]))
    return True


@cache
def suspect(func: Callable[..., Any]) -> str | None:
    """Name of a function that may read numbers, None of any other."""
    name = name_of(func)
    return name if name in READERS | SHAPED | INDEXERS | {"where"} else None


class NeedsCare(Exception):  # noqa: N818 (it is no error: the pass is repeated)
    """Raised by a pass that does not follow tensors, for an operation that may read numbers."""


def may_read(func: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Return whether :func:`reads` could hold, whatever the tensors in ``args`` depend on."""
    name = suspect(func)
    if name is None or (name == "where" and len(args) > 1):
        return False
    return name not in INDEXERS or any(index.dtype in MASKS for index in tensors(args[1:]))


def of_rows(value: Any) -> bool:
    """Return whether a tensor depends on the rows of members, or lies in the memory of one that does."""
    if not isinstance(value, Tensor):
        return False
    return hasattr(value, DATA) or (value._base is not None and hasattr(value._base, DATA))


def any_of_rows(values: Sequence[Any]) -> bool:
    """Return whether one of ``values``, or of those in lists, is :func:`of_rows`."""
    for value in values:  # a loop: it runs at each operation of a pass
        if isinstance(value, Tensor):
            if of_rows(value):
                return True
        elif isinstance(value, list | tuple) and any_of_rows(value):
            return True
    return False


@cache
def _dimension_of(func: Callable[..., Any]) -> int | None:
    return ALONG.get(name_of(func))


def goes_over_rows(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], rows: int) -> bool:
    """Return whether ``func`` works along the dimension of members' ``rows``, whatever the shape of its result."""
    place = _dimension_of(func)
    if place is None or not args or not of_rows(args[0]) or not args[0].dim() or args[0].shape[0] % rows:
        return False
    if hasattr(args[0], COUNTS):
        return False
    given = kwargs.get("dim", kwargs.get("dims", args[place] if len(args) > place else None))
    if given is None:
        name = name_of(func)
        given = (0 if args[0].dim() in (1, 3) else 1) if name in UNSAID else DEFAULTS.get(name)
        if sorts_rows(name, args[0]) and not kwargs.get("descending"):
            return False  # numbers of experts, by which a mixture sorts its rows and puts them back: they are followed
    if name_of(func) == "flip" and isinstance(given, int):
        given = args[place:]
    some = given if isinstance(given, list | tuple) else (given,)
    return any(isinstance(one, int) and one in (0, -args[0].dim()) for one in some)


def follow(func: Callable[..., Any], made: Any, given: Sequence[Any], rows: int) -> None:
    """Mark what ``func`` made of members' rows, and what it wrote to, the first of the arguments ``given``.

    Raises Unsupported for a tensor without a dimension of so many ``rows``, or of several times as many: it is of all members.
    Numbers of rows are taken where they only sort rows for products with the weights of experts.
    """
    name, first = name_of(func), given[0]
    if follow_counts(name, made, given):
        return
    for tensor in (made,) if isinstance(made, Tensor) else tensors([made]):
        shape = tensor.shape
        if not (shape and shape[0] % rows == 0) and not any(size % rows == 0 for size in shape):
            raise Unsupported(f"{name} makes one tensor {tuple(tensor.shape)} of the rows of all members")
        setattr(tensor, DATA, True)
    if (made is None or made is first) and isinstance(first, Tensor):
        with_mark([first, first._base])
    if name in SORTS or marked(given, ORDER):
        follow_order(name, made, given)
