"""The contract of a sampler: how a candidate is made from the centre.

A sampler is a law of three operations: which perturbation a member has, how it is applied, and the weighted sum of all
perturbations over a slice of columns. It knows nothing of fitness, ranks or models.

Legend: P members, D directions of noise, M columns, K rows. Member ``i`` has perturbation eps_i = sign_i * noise[direction_i].
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from neuro_cli.core.noise import Noise


@dataclass(frozen=True)
class Unit:
    """Members that share one direction, so that one draw of its noise serves them. None: nobody takes that side."""

    direction: int
    plus: int | None
    minus: int | None


class Sampler(ABC):
    """Base of the samplers. Structured ones override :meth:`perturb` and :meth:`combine`; the rest stays."""

    def bind(self, noise: Noise, population: int) -> None:
        """Take the noise of the run. Raises ConfigError when the population does not fit the sampler."""
        self.noise, self.population = noise, population
        self.check(population)

    def check(self, population: int) -> None:  # noqa: B027 (most samplers take any population)
        """Raise ConfigError when ``population`` does not fit."""

    @abstractmethod
    def side(self, member: int) -> tuple[int, int]:
        """(direction, sign) of a member; sign is +1 or -1."""

    @property
    def directions(self) -> int:
        """Directions of noise in the whole population."""
        return self.side(self.population - 1)[0] + 1

    def units(self, members: range) -> list[Unit]:
        """The members grouped by direction, in order."""
        sides: dict[int, dict[int, int]] = {}
        for member in members:
            direction, sign = self.side(member)
            sides.setdefault(direction, {})[sign] = member
        return [Unit(direction, by_sign.get(1), by_sign.get(-1)) for direction, by_sign in sides.items()]

    def perturb(
        self, base: Tensor, scale: Tensor, generation: int, direction: int, plus: Tensor | None, minus: Tensor | None
    ) -> None:
        """Write base + scale * noise to ``plus`` and base - scale * noise to ``minus``, all (M,); scale (1,) or (M,)."""
        self.noise.perturb(base, scale, generation, direction, plus, minus)

    def combine(
        self,
        weights: np.ndarray,
        moments: Sequence[int],
        generation: int,
        members: range,
        start: int,
        stop: int,
    ) -> Tensor:
        """Sums (K, stop - start): row k is the sum over ``members`` of weights[k, i] * moment_k(eps_i).

        ``weights`` (K, len(members)) float64; ``moments`` (K,): 1 for eps, 2 for eps**2 - 1. Members of one
        direction are merged before any noise is made.
        """
        directions: dict[int, int] = {}
        merged = np.zeros((len(weights), len(members)))
        for column, member in enumerate(members):
            direction, sign = self.side(member)
            place = directions.setdefault(direction, len(directions))
            for row, moment in enumerate(moments):
                merged[row, place] += weights[row, column] * (sign if moment == 1 else 1)
        return self.noise.combine(merged[:, : len(directions)], moments, generation, list(directions), start, stop)
