"""Weights of ranks and constants that the CMA-ES of a full matrix and of a diagonal share, as in pycma 4.5.

Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772, table 1.
"""

import math

import numpy as np


def raw_weights(population: int) -> np.ndarray:
    """Return weights (P,) of the ranks, best first: of the better half with sum 1, of the worse half with sum -1."""
    weights = math.log((population + 1) / 2) - np.log(np.arange(1, population + 1))
    better = weights > 0
    weights[better] /= weights[better].sum()
    weights[~better] /= -weights[~better].sum()
    return weights


def mass_of(weights: np.ndarray) -> float:
    """Return the effective number of members, mu_eff: the squared sum of weights over the sum of their squares."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def with_negative(weights: np.ndarray, rank_one: float, rank_many: float, size: int | None = None) -> np.ndarray:
    """Scale the negative weights so that a covariance keeps its size; ``size``: M, where it must also stay positive definite."""
    better, worse = weights[weights > 0], weights[weights < 0]
    total = min(1 + rank_one / rank_many, 1 + 2 * mass_of(worse) / (mass_of(better) + 2))
    if size is not None:
        total = min(total, (1 - rank_one - rank_many) / rank_many / size)
    return np.where(weights < 0, weights * total, weights)


def damping_of(size: int, mass: float, step_rate: float) -> float:
    """Return the damping of the step size for M = ``size`` and mu_eff = ``mass``."""
    inner = max(1.0, 3 * (1 - 0.5 ** (size / 9)))
    return 1 + 2 * max(0.0, inner * math.sqrt((mass - 1) / (size + 1)) - 1) + step_rate


def expected_length(size: int) -> float:
    """Return the expected length of a normal vector of M = ``size`` numbers."""
    return math.sqrt(2) * math.exp(math.lgamma((size + 1) / 2) - math.lgamma(size / 2)) if size < 10**6 else math.sqrt(size - 0.5)
