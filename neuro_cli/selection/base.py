"""Contract of a selection: chooses the scored members that move the model, and their coefficients.

A member is an address (iteration, number), from which any peer regenerates its perturbation; so only numbers and
coefficients are sent. Legend: p members per worker, n members in all.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scores:
    """Fitnesses (k,) float64 of members ``first`` to ``first`` + k - 1 of ``iteration``.

    ``path``: members chosen in the local iterations before, in their order; the scored ones are perturbations on top of them.
    """

    iteration: int
    first: int
    fitness: np.ndarray
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Step:
    """Coefficients (k,) float32 of the perturbations of members ``first`` to ``first`` + k - 1 of ``iteration``.

    ``paired``: coefficients of k mirrored pairs; second members have the negative ones.
    """

    iteration: int
    first: int
    coefficients: np.ndarray
    paired: bool = False

    @property
    def members(self) -> range:
        return range(self.first, self.first + len(self.coefficients) * (2 if self.paired else 1))

    def weights(self) -> np.ndarray:
        """Return the coefficient (n,) float64 of every member."""
        values = self.coefficients.astype(np.float64)
        return np.stack([values, -values], axis=1).ravel() if self.paired else values


class Selection(ABC):
    """Base of the selections. Both operations are functions of their arguments alone.

    ``local``: a worker may apply it to several rounds of tries before it reports (``cluster.local_iterations``).
    ``compares_members``: it compares fitnesses of different directions, so all must be scored on the same examples.
    ``needs_pairs``: members 2j and 2j + 1 must be the two sides of one direction.
    """

    local = compares_members = needs_pairs = False

    @abstractmethod
    def report(self, scores: Scores) -> Scores:
        """Choose the scores that a worker reports to the leader: a consecutive part of its own members."""

    @abstractmethod
    def choose(self, reports: list[Scores], sigma: float) -> list[Step]:
        """Choose the model's steps from the reports of all workers (no member twice), in the order of the addresses."""


def ordered(reports: list[Scores]) -> list[Scores]:
    """Sort reports by address, so that the choice does not depend on the order of arrival."""
    return sorted(reports, key=lambda scores: (scores.iteration, scores.first))
