"""Integer parameters of ask and tell: candidates are rounded, and each integer coordinate has a least standard deviation.

Marty et al., "LB+IC-CMA-ES: two simple modifications of CMA-ES to handle mixed-integer problems", PPSN 2024: the lower bound, as
pycma 4.5 has it, here outside of the algorithm, so that any one has it. Without it steps shrink until all members round to one
integer, and the search freezes there.

Legend: M parameters, P members.
"""

from statistics import NormalDist
from typing import Any

import numpy as np

from neuro_cli.algo.covariance.cma_weights import mass_of, raw_weights
from neuro_cli.core.errors import ConfigError
from neuro_cli.library.bounds import Bounds

LEAST = 0.2  # standard deviation at which 1.2 % of the members around an integer round to another one


def mask_of(integers: Any, size: int) -> np.ndarray:
    """Return the mask (M,) of integers among M = ``size``, from their indices, a mask, or None for none. Raises ConfigError."""
    given = np.zeros(0, int) if integers is None else np.asarray(integers)
    if given.dtype == bool and given.shape == (size,):
        return given.copy()
    if given.ndim != 1 or given.dtype.kind not in "iu" or not ((given >= 0) & (given < size)).all():
        raise ConfigError("integers", integers, f"must be indices from 0 to {size - 1}, or a mask of {size} values true or false")
    mask = np.zeros(size, bool)
    mask[given] = True
    return mask


def with_room(bounds: Bounds, mask: np.ndarray) -> Bounds:
    """Return bounds where an integer at a border has the width of any other, 1. Raises ConfigError where no integer is inside."""
    low, high = np.where(mask, np.ceil(bounds.low), bounds.low), np.where(mask, np.floor(bounds.high), bounds.high)
    if (low > high).any():
        place = int(np.flatnonzero(low > high)[0])
        raise ConfigError("bounds", (bounds.low[place], bounds.high[place]), f"hold no integer for parameter {place}")
    return Bounds(low - 0.5 * mask, high + 0.5 * mask, bounds.how)


def least_deviation(size: int, integers: int, population: int) -> float:
    """Return the least standard deviation of an integer coordinate: of ``integers`` among M = ``size``, as in pycma 4.5."""
    weights = raw_weights(max(population, 4))
    by_chance = 0.5 / -NormalDist().inv_cdf(1 / (2 + size + integers))  # share of members that leave an integer, for large M
    return min(LEAST, mass_of(weights[weights > 0]) / size, by_chance)


class Integers:
    """Map ``offset + stretch * point`` of an algorithm's points, by which integer coordinates have a ``least`` deviation.

    The stretch grows around the centre, which stays. An algorithm never sees it. ``mask`` (M,).
    """

    def __init__(self, mask: np.ndarray, least: float) -> None:
        self.mask, self.least = mask, least
        self.offset, self.stretch = np.zeros(len(mask)), np.ones(len(mask))

    def widen(self, centre: np.ndarray, deviations: np.ndarray) -> None:
        """Stretch integer coordinates with a deviation below the least, of the algorithm's ``centre`` and ``deviations`` (M,)."""
        wanted = np.where(self.mask, np.maximum(self.stretch, self.least / deviations), 1.0)
        self.offset += (self.stretch - wanted) * centre
        self.stretch = wanted

    def stretched(self, points: np.ndarray) -> np.ndarray:
        """Map points (.., M) of the algorithm to those of the search with integers."""
        return np.where(self.mask, self.offset + self.stretch * points, points)

    def rounded(self, points: np.ndarray, bounds: Bounds) -> np.ndarray:
        """Return points (.., M) inside ``bounds`` with integers where the mask has them."""
        whole = np.clip(np.rint(points), bounds.low + 0.5, bounds.high - 0.5) + 0.0  # no -0.0
        return np.where(self.mask, whole, points)
