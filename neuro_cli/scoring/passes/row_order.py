"""Rows of all members in another order: a mixture of experts sorts them by integers for its products, and puts them back.

Marks follow such rows. They may meet numbers that do not depend on rows, and each other; at the end they are back in place.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from neuro_cli.scoring.passes.example_marks import DATA, marked, tensors, with_mark
from neuro_cli.scoring.passes.operators import Unsupported

ORDER = "_neuro_order"  # attribute of rows in the order of a sort, and of the places that give it
PLACES = "_neuro_places"  # of these places
INVERSE = "_neuro_inverse"  # of the places that give the first order back
SORTS = frozenset(("argsort", "sort"))
LOOKUPS = frozenset(("__getitem__", "index_select"))
WRITES = frozenset(("__setitem__", "index_add", "index_add_", "index_copy", "index_copy_", "index_put", "index_put_"))


def sorts_rows(name: str, x: Tensor) -> bool:
    """Return whether a function sorts rows by integers."""
    return name in SORTS and not x.is_floating_point()


def follow_order(name: str, made: Any, given: Sequence[Any]) -> None:
    """Mark what the function ``name`` made of ``given``. Raises Unsupported where rows of two orders meet."""
    first = given[0]
    if sorts_rows(name, first):
        sorted_places = hasattr(first, PLACES)
        for tensor in tensors([made]):
            setattr(tensor, ORDER, True)
        places = made if isinstance(made, Tensor) else made[1]
        setattr(places, INVERSE if sorted_places else PLACES, True)
        return
    if not marked(given, ORDER) or name.endswith("_like") or name.startswith("new_"):
        return
    if name in LOOKUPS and marked(given[1:], INVERSE):
        if not hasattr(first, ORDER):
            raise Unsupported(f"{name} puts back rows that were never sorted")
        return
    if name in LOOKUPS and marked(given[1:], ORDER):
        if hasattr(first, ORDER):
            raise Unsupported(f"{name} sorts rows twice")
        with_mark(made, ORDER)
        return
    if name in WRITES and marked(given[1:], ORDER) and not hasattr(first, ORDER):
        _follow_write(name, made, given)
        return
    if any(hasattr(tensor, DATA) and tensor.dim() and not hasattr(tensor, ORDER) for tensor in tensors(given)):
        raise Unsupported(f"{name} mixes rows that integers of all members sorted with others")
    with_mark(made, ORDER)


def _follow_write(name: str, made: Any, given: Sequence[Any]) -> None:
    """Follow a write at sorted places: of sorted rows, which are back then, or of a count, which gives the inverse."""
    source = tensors(given)[-1]
    if hasattr(source, ORDER):
        return
    if hasattr(source, DATA):
        raise Unsupported(f"{name} writes rows to the places of others")
    for tensor in tensors([given[0], made]):
        setattr(tensor, ORDER, True)
        setattr(tensor, INVERSE, True)


def refuse_order(value: Any, what: Callable[[], str]) -> None:
    """Raise Unsupported where a tensor is still sorted; ``what``: what it is."""
    if marked([value], ORDER):
        raise Unsupported(f"{what()} is in an order that integers of all members gave")
