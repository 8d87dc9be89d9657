"""The contract of a selection: which of the scored members move the model, and how far.

A member is an address (iteration, number): whoever knows it makes the member's perturbation again, so numbers and
coefficients are all that has to be sent. Legend: p members a worker, n members in all.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Fitnesses (k,) float32 of members ``first`` to ``first`` + k - 1 of ``iteration``."""

    iteration: int
    first: int
    fitness: np.ndarray


@dataclass(frozen=True)
class Step:
    """Coefficients (k,) float32 of the perturbations of members ``first`` to ``first`` + k - 1 of ``iteration``."""

    iteration: int
    first: int
    coefficients: np.ndarray


class Selection(ABC):
    """Base of the selections. Both operations are functions of their arguments alone."""

    @abstractmethod
    def report(self, scores: Scores) -> Scores:
        """What a worker tells the leader of its own members: a consecutive part of them."""

    @abstractmethod
    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        """The model's step, from reports of all workers (no two of one member), in the order of the addresses."""


def ordered(reports: list[Scores]) -> list[Scores]:
    """By address: what is chosen must not depend on who reported first."""
    return sorted(reports, key=lambda scores: (scores.iteration, scores.first))
