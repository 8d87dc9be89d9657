"""Rows of all members in sorted order: a mixture of experts sorts rows by integers for its products, and restores the order.

Marks follow such rows. They may be combined with numbers that do not depend on rows, with rows of the same sort, and with each
row's expert weight by the counts of that sort. At the end they must be back in place.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch import bool as boolean

from neuro_cli.scoring.passes.example_marks import DATA, marked, tensors, with_mark
from neuro_cli.scoring.passes.operators import Unsupported

ORDER = "_neuro_order"  # attribute of rows in the order of a sort, and of the places that give it: an object for each sort
NUMBERS = "_neuro_numbers"  # mark of the integers that were sorted
PLACES = "_neuro_places"  # mark of these places: how many of them each row has
INVERSE = "_neuro_inverse"  # mark of the places that give the first order back
COUNTS = "_neuro_counts"  # mark of how many rows of all members each expert gets: the order that they count, None of any other
SORTS = frozenset(("argsort", "sort"))
LOOKUPS = frozenset(("__getitem__", "index_select"))
WRITES = frozenset(("__setitem__", "index_add", "index_add_", "index_copy", "index_copy_", "index_put", "index_put_"))
DIVISIONS = frozenset(("__floordiv__", "floor_divide"))
CASTS = frozenset(("clone", "contiguous", "detach", "float", "int", "long", "to"))
GROUPED = frozenset(("grouped_mm", "_grouped_mm", "grouped_mm_fallback"))  # products of each row with its expert's weight
BY_COUNTS = GROUPED | {"cumsum", "to", "int", "long"}


def sorts_rows(name: str, x: Tensor) -> bool:
    """Return whether a function sorts rows by integers."""
    return name in SORTS and x.dim() == 1 and not x.is_floating_point()


def follow_counts(name: str, made: Any, given: Sequence[Any]) -> bool:
    """Mark numbers of rows that ``name`` made of ``given``, and return whether there are any.

    Raises Unsupported where such numbers do more than sort rows for products with the weights of experts.
    """
    counts = [getattr(tensor, COUNTS) for tensor in tensors(given) if hasattr(tensor, COUNTS)]
    if counts and name not in BY_COUNTS:
        raise Unsupported(f"{name} gets numbers of rows of all members")
    if name in GROUPED and counts:
        if counts[0] is None or counts[0] is not getattr(given[0], ORDER, None):
            raise Unsupported(f"{name} goes by counts of other rows than those that integers of all members sorted")
        return False
    if name != "histc" and not counts:
        return False
    order = counts[0] if counts else getattr(given[0], ORDER, None) if hasattr(given[0], NUMBERS) else None
    with_mark(with_mark(made), COUNTS, order)
    return True


def follow_order(name: str, made: Any, given: Sequence[Any]) -> None:
    """Mark what the function ``name`` made of ``given``. Raises Unsupported where rows of two orders meet."""
    first, rest = given[0], given[1:]
    if sorts_rows(name, first):
        _follow_sort(name, made, first)
        return
    orders = {getattr(tensor, ORDER) for tensor in tensors(given) if hasattr(tensor, ORDER)}
    if not orders or name.endswith("_like") or name.startswith("new_") or not (made is None or tensors([made])):
        return
    if len(orders) > 1:
        raise Unsupported(f"{name} mixes two orders that integers of all members gave")
    order = orders.pop()
    if name in CASTS:
        for mark in (NUMBERS, PLACES, INVERSE):
            if hasattr(first, mark):
                with_mark(made, mark, getattr(first, mark))
    elif name in DIVISIONS and getattr(first, PLACES, 0) == 1 and isinstance(rest[0], int):
        with_mark(made, PLACES, rest[0])  # the rows of places, where each row has as many
    elif name in LOOKUPS and marked(rest, ORDER):
        if marked(rest, INVERSE):
            if not hasattr(first, ORDER) or _are_places(first):
                raise Unsupported(f"{name} puts back rows that were never sorted by integers of all members")
            return
        if hasattr(first, ORDER):
            raise Unsupported(f"{name} sorts rows twice by integers of all members")
        if hasattr(first, DATA):
            _check_places(name, first, tensors(rest))
    elif name in WRITES and any(hasattr(tensor, ORDER) and tensor.dtype != boolean for tensor in tensors(rest[:-1])):
        _follow_write(name, made, given, order)
        return
    elif any(map(_are_places, tensors(given))):
        raise Unsupported(f"{name} computes with places of rows that integers of all members sorted")
    elif any(hasattr(tensor, DATA) and tensor.dim() and not hasattr(tensor, ORDER) and not hasattr(tensor, COUNTS)
             for tensor in tensors(given)):  # fmt: skip
        raise Unsupported(f"{name} mixes rows that integers of all members sorted with others")
    else:
        count = next(len(tensor) for tensor in tensors(given) if hasattr(tensor, ORDER))
        if any(tensor.shape[:1] != (count,) for tensor in tensors([made])):
            raise Unsupported(f"{name} takes rows apart that integers of all members sorted")
    written = [first, first._base] if made is None or made is first else []
    with_mark([made, *written], ORDER, order)


def _are_places(x: Tensor) -> bool:
    return hasattr(x, PLACES) or hasattr(x, INVERSE)


def _follow_sort(name: str, made: Any, first: Tensor) -> None:
    """Mark what a sort gave; that of places gives those of the first order."""
    places = made if isinstance(made, Tensor) else made[1]
    again = hasattr(first, ORDER)
    if again and getattr(first, PLACES, 0) != 1:
        raise Unsupported(f"{name} sorts rows twice by integers of all members")
    order = getattr(first, ORDER) if again else object()
    if made is not places and not again:  # sorted places are none of rows
        with_mark(made[0], NUMBERS)
    with_mark(made, ORDER, order)
    with_mark(places, INVERSE if again else PLACES, 1)


def _check_places(name: str, x: Tensor, places: list[Tensor]) -> None:
    """Raise Unsupported where ``places`` are not one list of places of all the rows ``x``."""
    if len(places) != 1 or getattr(places[0], PLACES, 0) * len(x) != len(places[0]):
        raise Unsupported(f"{name} goes by other places than those of rows that integers of all members sorted")


def _follow_write(name: str, made: Any, given: Sequence[Any], order: Any) -> None:
    """Follow a write at sorted places: of sorted rows, which are back then, or of a count, which gives the inverse."""
    first, (*places, source) = given[0], tensors(given[1:])
    if hasattr(first, ORDER):
        raise Unsupported(f"{name} writes to rows that integers of all members sorted")
    _check_places(name, first, places)
    if hasattr(source, ORDER) and not _are_places(source):
        return
    if hasattr(source, DATA) or len(source) != len(places[0]) or getattr(places[0], PLACES) != 1:
        raise Unsupported(f"{name} writes others to the places of rows that integers of all members sorted")
    for mark, value in ((ORDER, order), (INVERSE, 1)):
        with_mark([first, made], mark, value)


def refuse_order(value: Any, what: Callable[[], str]) -> None:
    """Raise Unsupported where a tensor is still sorted; ``what``: what it is."""
    if marked([value], ORDER):
        raise Unsupported(f"{what()} is in an order that integers of all members gave")
