"""Schedules: a factor on sigma or on the learning rate, a function of the generation only (so resume needs no state)."""

import math
from collections.abc import Callable
from typing import Any

from neuro_cli.core.checks import integer, number, one_of

KINDS = ("constant", "linear", "cosine", "exponential")


class Schedule:
    """Factor from 1 to ``final`` over ``generations`` generations after ``warmup`` linear ones, then constant.

    ``kind``: constant (``final`` unused), linear, cosine or exponential. ``key`` names the config node in errors.
    """

    def __init__(self, key: str, kind: str, final: float, generations: int, warmup: int = 0) -> None:
        self.kind = one_of(f"{key}.kind", kind, KINDS)
        self.final = number(f"{key}.final", final, low=0.0)
        self.generations = integer(f"{key}.generations", generations, 1)
        self.warmup = integer(f"{key}.warmup", warmup, 0)
        self._spans = [(self.warmup, self.generations, 0.0)]  # first generation, end, and progress in the first
        if kind == "exponential":
            number(f"{key}.final", final, above=0.0)

    @property
    def end(self) -> int:
        """Generation in which the schedule ends."""
        return self._spans[-1][1]

    @property
    def moved(self) -> bool:
        """Return whether the end was moved."""
        return len(self._spans) > 1

    def end_at(self, end: int, since: int) -> None:
        """Move the end to generation ``end``: from generation ``since`` on the rest of the schedule takes until then."""
        since = max(since, self.warmup)
        self._spans.append((since, end, self._progress(since)))

    def _progress(self, generation: int) -> float:
        begin, end, before = next((span for span in reversed(self._spans) if generation >= span[0]), self._spans[0])
        return min(1.0, before + (1 - before) * (generation - begin) / max(1, end - begin))

    def factor(self, generation: int) -> float:
        """Return the factor in generation 0, 1, 2, ..."""
        if generation < self.warmup:
            return (generation + 1) / (self.warmup + 1)
        progress = self._progress(generation)
        match self.kind:
            case "linear":
                return 1 + (self.final - 1) * progress
            case "cosine":
                return self.final + (1 - self.final) * 0.5 * (1 + math.cos(math.pi * progress))
            case "exponential":
                return self.final**progress
            case _:
                return 1.0


class OwnSchedule(Schedule):
    """Schedule of a script: ``function`` of the generation, 0, 1, 2, ..., returns a number >= 0. ``key`` names it in errors."""

    def __init__(self, key: str, function: Callable[[int], float]) -> None:
        super().__init__(key, "constant", 1.0, 1)
        self._key, self._function = key, function

    def factor(self, generation: int) -> float:
        value: Any = self._function(generation)
        value = value.item() if getattr(value, "ndim", None) == 0 else value  # one number of numpy or torch
        return number(f"{self._key}({generation})", value, low=0.0)


def schedules_of(algo: object) -> list[Schedule]:
    """Return the schedules that an algorithm was constructed with."""
    return [value for value in vars(algo).values() if isinstance(value, Schedule) and value is not CONSTANT]


def ended(algo: object, generations: int, end: int | None = None) -> list[str]:
    """Return a line for each schedule of an algorithm's config that ends before ``generations`` do, as in a continued run.

    ``end``: generation at which a time limit ended longer schedules.
    """
    nodes = algo if isinstance(algo, dict) else {}
    ends = {key: node["generations"] for key, node in nodes.items() if key.endswith("_schedule") and node["kind"] != "constant"}
    ends = {key: length if end is None else min(length, end) for key, length in ends.items()}
    return [
        f"algo.{key} ended at generation {end}: its last factor holds from there on"
        for key, end in ends.items()
        if end < generations
    ]


CONSTANT = Schedule("schedule", "constant", 1.0, 1)
