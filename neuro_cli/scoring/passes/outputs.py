"""Outputs of a module, leaf by leaf: tensors in tuples, dictionaries, dataclasses and whatever torch's ``_pytree`` knows.

A leaf that is a tensor has the examples in its first dimension. Numbers, texts and None stay if all members have the same. Any
other object (a cache of keys and values, a distribution) would hold tensors of many members: an :class:`Absent` takes its place,
which raises as soon as it is used.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from neuro_cli.scoring.passes.operators import Unsupported

ROUNDINGS = 100  # times as far from exact outputs as a single member may a pass be: Winograd's products round 30 times as far
FLIPPED = 0.05  # share of rows that rounding may flip
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class Absent:
    """In place of an object of ``kind`` among a module's outputs. Any use of it raises Unsupported."""

    def __init__(self, kind: str) -> None:
        self.__dict__["kind"] = kind

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"an output that is a {self.__dict__['kind']} is not there where one pass answers for many members")

    __getattr__ = __getitem__ = __setattr__ = __setitem__ = __iter__ = __len__ = __bool__ = __call__ = __contains__ = _refuse

    def __repr__(self) -> str:
        return f"Absent({self.__dict__['kind']})"


def flat(made: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return leaves of ``made``, and the function that puts others in their places."""
    leaves, form = tree_flatten(made)
    parts = [_fields(leaf) for leaf in leaves]

    def rebuilt(others: Sequence[Any]) -> Any:
        left = iter(others)
        return tree_unflatten([build([next(left) for _ in own]) for own, build in parts], form)

    return [leaf for own, _ in parts for leaf in own], rebuilt


def _fields(leaf: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return leaves of a dataclass, which is one leaf for torch; of any other leaf itself."""
    if not is_dataclass(leaf) or isinstance(leaf, type):
        return [leaf], lambda others: others[0]
    names = [field.name for field in fields(leaf)]
    inner, build = flat([getattr(leaf, name) for name in names])

    def rebuilt(others: Sequence[Any]) -> Any:
        result = copy.copy(leaf)
        for name, value in zip(names, build(others), strict=True):
            object.__setattr__(result, name, value)  # a frozen one too
        return result

    return inner, rebuilt


def rows_of(given: Sequence[Any]) -> int:
    """Length of the first tensor among inputs that has one; 0 where none has."""
    return next((len(value) for value in given if isinstance(value, Tensor) and value.dim()), 0)


def by_tensor(made: Any, function: Callable[[Tensor], Any]) -> Any:
    """Return ``made`` with ``function`` of each tensor, and Absent for each object that is no plain value.

    Raises Unsupported where there is no tensor.
    """
    if isinstance(made, Tensor):  # torch's trees take tens of microseconds
        return function(made)
    leaves, rebuilt = flat(made)
    _demand_tensor(leaves, made)
    return rebuilt([function(leaf) if isinstance(leaf, Tensor) else plain(leaf) for leaf in leaves])


def plain(leaf: Any) -> Any:
    return leaf if isinstance(leaf, (*PLAIN, Absent)) else Absent(type(leaf).__name__)


def joined(parts: Sequence[Any], examples: int) -> Any:
    """Return outputs of single members in their order as those of all of them: rows (n e, ..); a number of each member (n,).

    Raises Unsupported for outputs of another first dimension, and where members give different trees.
    """
    split = [flat(part) for part in parts]
    leaves, rebuilt = split[0]
    _demand_tensor(leaves, parts[0])
    if any(len(other) != len(leaves) for other, _ in split):
        raise Unsupported("its members give different numbers of outputs")
    return rebuilt([_joined(list(values), examples) for values in zip(*(other for other, _ in split), strict=True)])


def _joined(values: list[Any], examples: int) -> Any:
    if not isinstance(values[0], Tensor):
        first = plain(values[0])
        return first if isinstance(first, Absent) or all(value == first for value in values) else Absent(type(first).__name__)
    if all(isinstance(value, Tensor) and not value.dim() for value in values):
        return torch.stack(values)
    for value in values:
        demand_rows(value, examples)
    return torch.cat(values)


def demand_rows(output: Tensor, examples: int) -> Tensor:
    """Return ``output`` of one member. Raises Unsupported where its first dimension is not the member's examples."""
    if not output.dim() or len(output) != examples:
        raise Unsupported(f"an output of shape {tuple(output.shape)} for {examples} examples of a member")
    return output


def _demand_tensor(leaves: Sequence[Any], made: Any) -> None:
    if not any(isinstance(leaf, Tensor) for leaf in leaves):
        raise Unsupported(f"its output is a {type(made).__name__} without tensors")


def alike(made: Any, wanted: Any, tolerance: float) -> bool:
    """Return whether the tensors of two trees agree: floats to ``tolerance`` of the largest, the rest exactly.

    A value that is no number agrees with nothing.
    """
    mine, theirs = (flat(tree)[0] for tree in (made, wanted))
    pairs = list(zip(mine, theirs, strict=False))
    return len(mine) == len(theirs) and all(_alike(a, b, tolerance) for a, b in pairs if isinstance(b, Tensor))


def _alike(made: Any, wanted: Tensor, tolerance: float) -> bool:
    if not isinstance(made, Tensor) or made.shape != wanted.shape:
        return False
    if not (wanted.is_floating_point() or wanted.is_complex()) or not wanted.numel():
        return torch.equal(made, wanted)
    error = torch.where(made == wanted, 0.0, (made - wanted).abs())  # infinite where both are
    largest = torch.where(wanted.abs().isinf(), 0.0, wanted.abs()).max()
    return bool(error.max() <= tolerance * largest)  # a comparison that an error of NaN fails


def nearer(made: Any, wanted: Any, still: Any, share: float) -> bool:
    """Return whether each row of the floats of ``made`` is as near to ``wanted`` as ``share`` of how far that is from ``still``.

    Distances are root mean squares over a row; at least one float must be there.
    """
    trees = [[leaf for leaf in flat(tree)[0] if isinstance(leaf, Tensor)] for tree in (made, wanted, still)]
    if len({tuple(leaf.shape for leaf in leaves) for leaves in trees}) != 1:
        return False
    floats = [each for each in zip(*trees, strict=True) if each[1].is_floating_point()]
    return bool(floats) and all(bool((_apart(a, b) <= share * _apart(b, c)).all()) for a, b, c in floats)


def rounds_alike(made: Any, single: Any, exact: Any, dtype: torch.dtype) -> bool:
    """Return whether ``made`` is about as near to ``exact`` as ``single`` is, both computed in ``dtype``.

    Some rows in a hundred may be further away: rounding flips steps, such as spikes. Leaves that are no floats may differ.
    """
    trees = [[leaf for leaf in flat(tree)[0] if isinstance(leaf, Tensor)] for tree in (made, single, exact)]
    if len({tuple(leaf.shape for leaf in leaves) for leaves in trees}) != 1:
        return False
    floats = [
        each for each in zip(*trees, strict=True) if each[2].numel() and (each[2].is_floating_point() or each[2].is_complex())
    ]
    return all(_rounds_alike(a, b, c, torch.finfo(dtype).eps) for a, b, c in floats)


def _rounds_alike(made: Tensor, single: Tensor, exact: Tensor, eps: float) -> bool:
    largest = torch.where(exact.abs().isinf(), 0.0, exact.abs()).max()
    limit = ROUNDINGS * (_furthest(single, exact).max() + eps * largest)
    return bool((~(_furthest(made, exact) <= limit)).sum() <= FLIPPED * len(made))  # a comparison that an error of NaN fails


def _furthest(one: Tensor, exact: Tensor) -> Tensor:
    """Return the largest difference of each row; infinite numbers of one sign are equal."""
    return torch.where(one == exact, 0.0, (one.to(exact.dtype) - exact).abs()).reshape(len(one), -1).amax(1)


def _apart(one: Tensor, other: Tensor) -> Tensor:
    """Return the distance of each row; infinite numbers of one sign are equal."""
    difference = torch.where(one == other, 0.0, (one - other).float()).reshape(len(one), -1)
    return difference.pow(2).mean(1).sqrt()
