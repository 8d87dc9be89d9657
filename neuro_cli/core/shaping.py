"""Fitness shaping: from the fitnesses (P,) of a generation to utilities (P,), both float64.

All utilities are on the scale of the gradient estimate g = 1/(P sigma) sum_i u_i eps_i. Equal fitnesses get equal utilities, so
a result never depends on the order of ties: :func:`by_rank` ensures this for any algorithm that ranks.
"""

import math
from collections.abc import Callable

import numpy as np

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import nearest


def ranks(fitness: np.ndarray) -> np.ndarray:
    """Return ranks 0 (worst) to P - 1 (best); equal fitnesses share their mean rank."""
    return by_rank(fitness, np.arange(len(fitness)))


def by_rank(fitness: np.ndarray, utilities: np.ndarray) -> np.ndarray:
    """Return utilities (.., P) of the members from those of the ranks, worst first; equals share the mean over their ranks."""
    order = np.argsort(fitness, kind="stable")
    ascending = fitness[order]
    equal = ascending[1:] == ascending[:-1]
    shared = np.array(utilities, np.float64)
    if equal.any():
        borders = np.concatenate([[0], np.flatnonzero(~equal) + 1, [len(fitness)]])
        several = np.flatnonzero(np.diff(borders) > 1)
        for start, stop in zip(borders[several], borders[several + 1], strict=True):
            shared[..., start:stop] = shared[..., start:stop].mean(axis=-1, keepdims=True)
    out = np.empty_like(shared)
    out[..., order] = shared
    return out


def is_flat(fitness: np.ndarray) -> bool:
    """Return whether all fitnesses are equal: such a generation carries no information."""
    return bool((fitness == fitness[0]).all())


def centred_rank(fitness: np.ndarray) -> np.ndarray:
    """Return ranks scaled to [-0.5, 0.5] (Salimans et al. 2017, section 2.1)."""
    if len(fitness) == 1:
        return np.zeros(1)
    return ranks(fitness) / (len(fitness) - 1) - 0.5


def nes_utilities(fitness: np.ndarray) -> np.ndarray:
    """P times the utilities of Wierstra et al. 2014, section 3.1: the better half counts, by the logarithm of its rank."""
    population = len(fitness)
    of_ranks = np.maximum(0.0, np.log(population / 2 + 1) - np.log(np.arange(population, 0, -1)))
    return by_rank(fitness, of_ranks / of_ranks.sum() * population - 1.0)


def z_score(fitness: np.ndarray) -> np.ndarray:
    """Return fitness less its mean, in standard deviations; zeros when all are equal."""
    spread = fitness.std()
    return centred(fitness) / spread if spread > 0 else np.zeros_like(fitness)


def centred(fitness: np.ndarray) -> np.ndarray:
    """Centre the fitness: vanilla NES as in "An efficient GPU implementation of Natural Evolution Strategies", section 3.

    Its step is ``sum_i c_i E_i`` with ``c_i = alpha (r_i - mean r)`` and E_i = sigma eps_i, so a learning rate of
    P sigma**2 alpha with plain SGD takes the same.
    """
    # the mean of 50 times 0.1 is not 0.1: what is left is the deviation too, so that each z-score would be 1
    return np.zeros_like(fitness) if is_flat(fitness) else fitness - fitness.mean()


def raw(fitness: np.ndarray) -> np.ndarray:
    """Return the fitness itself: the unbiased estimate of the gradient of its expectation."""
    return fitness.copy()


def _by_pairs(fitness: np.ndarray, shape: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return ``shape`` of each antithetic pair's half difference: the plus side gets it, the minus side its negative."""
    utilities = shape((fitness[0::2] - fitness[1::2]) / 2)
    return np.stack([utilities, -utilities], axis=1).ravel()


def pair_z_score(fitness: np.ndarray) -> np.ndarray:
    """Half differences of pairs in units of their root mean square; common parts of both sides cancel."""

    def scaled(half: np.ndarray) -> np.ndarray:
        size = float(np.sqrt((half**2).mean()))
        return half / size if size > 0 else np.zeros_like(half)

    return _by_pairs(fitness, scaled)


def _joined(sizes: np.ndarray, rounding: np.ndarray) -> np.ndarray:
    """Return ``sizes`` where neighbours no further apart than their errors of ``rounding`` together are the smallest of them."""
    order = np.argsort(sizes, kind="stable")
    ascending, errors = sizes[order], rounding[order]
    begins = np.concatenate([[True], ~(ascending[1:] <= ascending[:-1] + errors[1:] + errors[:-1])])
    out = np.empty_like(sizes)
    out[order] = ascending[begins][np.cumsum(begins) - 1]
    return out


def pair_rank(fitness: np.ndarray) -> np.ndarray:
    """Signed ranks (Wilcoxon): the rank of a pair's difference by size, from above 0 to 0.5, with its sign."""
    # 0.37 - 0.36 is not 0.02 - 0.01 in floating point: differences that tie would have ranks of their own
    finite = np.where(np.isfinite(fitness), np.abs(fitness), 0.0)
    rounding = 2 * float(np.finfo(np.float64).eps) * np.maximum(finite[0::2], finite[1::2])  # a huge pair's is no other pair's
    return _by_pairs(fitness, lambda half: np.sign(half) * (ranks(_joined(np.abs(half), rounding)) + 1) / (2 * len(half)))


def pair_rank_cubed(fitness: np.ndarray) -> np.ndarray:
    """Cubes of signed ranks, scaled to end at 0.5 as :func:`pair_rank` does: the few largest differences decide.

    The mean return depends on rare large differences, which ranks hardly count; a single one of them cannot outweigh the rest, as
    it can in :func:`pair_z_score`.
    """
    return 4 * pair_rank(fitness) ** 3


def of_top_pairs(fitness: np.ndarray, share: float, shape: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Shape the ``share`` of pairs with the best better sides; the others get 0 (Mania et al. 2018, algorithm 2, lines 6 and 7).

    Pairs as good as the last of them count too. Utilities are scaled so that the mean is over the pairs that count.
    """
    better = np.maximum(fitness[0::2], fitness[1::2])
    count = math.ceil(share * len(better))
    chosen = np.repeat(better >= np.sort(better)[-count], 2)
    utilities = np.zeros(len(fitness))
    utilities[chosen] = shape(fitness[chosen]) * (len(fitness) / chosen.sum())
    return utilities


SHAPINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    shaping.__name__: shaping for shaping in (centred_rank, nes_utilities, z_score, centred, raw)
}
# members come in mirrored pairs (2j, 2j + 1), each pair compared with itself only: the way to shape when pairs see
# examples of their own, some of them harder than others
PAIR_SHAPINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    shaping.__name__: shaping for shaping in (pair_z_score, pair_rank, pair_rank_cubed)
}


def shaping_of(key: str, name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the shaping called ``name``, the value of ``key``. Raises ConfigError for an unknown one."""
    known = SHAPINGS | PAIR_SHAPINGS
    if name not in known:
        raise ConfigError(key, name, nearest(str(name), known))
    return known[name]
