"""Pairwise covering: far fewer cases than a product of parameters, and each two values of two parameters still meet in one."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each parameter, the same every time; any two values of two parameters share one of them."""
    candidates = {candidate: _pairs(candidate) for candidate in product(*(range(len(values)) for values in parameters))}
    missing = set().union(*candidates.values())
    chosen = []
    while missing:
        best = max(candidates, key=lambda candidate: len(missing & candidates[candidate]))
        missing -= candidates.pop(best)
        chosen.append(best)
    return [tuple(values[place] for values, place in zip(parameters, candidate, strict=True)) for candidate in sorted(chosen)]


def _pairs(candidate: tuple[int, ...]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(combinations(enumerate(candidate), 2))  # type: ignore[arg-type]


def each_pair(indirect: Sequence[str] = (), **parameters: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by a pairwise covering of its ``parameters``."""
    cases = [pytest.param(*case, id="-".join(map(_name, case))) for case in pairwise(*parameters.values())]
    return pytest.mark.parametrize(tuple(parameters), cases, indirect=list(indirect))


def _name(value: Any) -> str:
    """A value in the name of a case."""
    # the text of a function has its address, and pytest's workers must collect the same names
    return "-".join(map(_name, value)) if isinstance(value, tuple) else str(getattr(value, "__name__", value))
