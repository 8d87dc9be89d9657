"""Dependence of the calls of a clean pass: which steps' outputs they get without another step between, and how.

Some calls without parameters are noted as links of their own, since what they make of a small change is known: attention, and
functions of single numbers that get a sum of several steps' outputs.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.scoring.activation.found import FoundFixed, FoundLayer, Use
from neuro_cli.scoring.activation.marks import DATA, LAYER, SOURCES, SUMMED, USE, tensors

# give nothing but zeros below zero
RECTIFIERS = frozenset((F.relu, F.relu_, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_))
# of every number by itself, with a slope that two evaluations tell
SMOOTH = frozenset((
    F.gelu, F.silu, F.elu, F.leaky_relu, F.softplus, F.mish, F.hardswish, F.tanh, torch.tanh, Tensor.tanh, F.sigmoid,
    torch.sigmoid, Tensor.sigmoid,
))  # fmt: skip
ADDED = frozenset((torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__))
FIXED = 1 << 32  # numbers of fixed calls among sources begin here; below are those of steps


def note_use(steps: list[FoundLayer], func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Use | None:
    """Note for the steps that ``func`` gets their outputs, or what a use made of them; that use, None for none or several."""
    noted = []
    for tensor in tensors([*args, *kwargs.values()]):
        number, before = getattr(tensor, LAYER, None), getattr(tensor, USE, None)
        if number is None and before is None:
            continue
        noted.append(Use(func, bool(args) and args[0] is tensor, args[1:], kwargs))
        if number is not None:
            steps[number].users.append(noted[-1])
        if before is not None:
            before.users.append(noted[-1])
    return noted[0] if len(noted) == 1 else None


def note_step(step: FoundLayer, given: Iterable[Any]) -> None:
    """Set what a step depends on from its arguments."""
    data = [tensor for tensor in tensors(given) if hasattr(tensor, DATA)]
    step.sources = _sources(data)
    step.summed = len(data) == 1 and getattr(data[0], SUMMED, None) == step.sources


def passed_on(
    func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], number: int | None
) -> tuple[frozenset[int], frozenset[int] | None]:
    """Sources of what a call gives, and those whose sum it is, None for no sum; ``number``: its own as a source or None."""
    if number is not None:
        return frozenset((number,)), frozenset((number,))
    data = [tensor for tensor in tensors([*args, *kwargs.values()]) if hasattr(tensor, DATA)]
    sources = _sources(data)
    if func not in ADDED or kwargs or len(args) != 2 or len({tuple(tensor.shape) for tensor in data}) != 1:
        return sources, None
    parts = [getattr(tensor, SUMMED, None) for tensor in data]
    known = [part for part in parts if part is not None]
    whole = frozenset[int]().union(*known)
    return sources, whole if len(known) == len(parts) and sum(map(len, known)) == len(whole) else None


def _sources(data: Sequence[Tensor]) -> frozenset[int]:
    return frozenset[int]().union(*(getattr(tensor, SOURCES, ()) for tensor in data))


def fixed_call(
    steps: list[FoundLayer], place: int, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> FoundFixed | None:
    """The call number ``place`` where it is a link of its own, else None."""
    if func is F.scaled_dot_product_attention:
        return _attention(steps, place, *args, **kwargs)
    if (func in RECTIFIERS or func in SMOOTH) and args and isinstance(args[0], Tensor):
        summed = getattr(args[0], SUMMED, None)
        if summed is not None and len(summed) > 1:
            names = dict(enumerate(args[1:])) | kwargs
            return FoundFixed(place, func, args[:1], [summed], {str(name): value for name, value in names.items()})
    return None


def _attention(
    steps: list[FoundLayer], place: int, query: Tensor, key: Tensor, value: Tensor, *more: Any, **kwargs: Any
) -> FoundFixed | None:
    parts = (query, key, value)
    viewed = [_viewed(steps, part) for part in parts]
    if not any(viewed) or any(part.dim() != 4 for part in parts) or query.shape[:2] != key.shape[:2]:
        return None
    options = dict(zip(("attn_mask", "dropout_p", "is_causal", "scale"), more, strict=False)) | kwargs
    return FoundFixed(place, F.scaled_dot_product_attention, parts, viewed, options)


def _viewed(steps: list[FoundLayer], part: Tensor) -> frozenset[int]:
    """The step whose outputs ``part`` is a view of; none where it is of no one's."""
    for number in getattr(part, SOURCES, ()):
        raw = None if number >= FIXED else steps[number].raw
        if raw is not None and raw.is_contiguous() and raw.untyped_storage().data_ptr() == part.untyped_storage().data_ptr():
            return frozenset((number,))
    return frozenset()
