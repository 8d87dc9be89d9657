"""SNES: separable natural evolution strategy, with one step size per parameter.

Wierstra, Schaul, Glasmachers, Sun, Peters, Schmidhuber, "Natural evolution strategies", JMLR 15, 2014, algorithm 6
(separable NES); defaults of its table 1.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, Proposal
from neuro_cli.algo.centre.formula import OwnCentre
from neuro_cli.algo.step_size.layer_factors import RATE, SIGMA
from neuro_cli.core.checks import number
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import PAIR_SHAPINGS, shaping_of


class SNES(OwnCentre):
    """Steps ``centre += lr * sigma * mean u_i eps_i`` and ``sigma *= exp(lr_sigma / 2 * mean u_i (eps_i**2 - 1))``, means over P.

    ``sigma`` > 0: initial step size of every parameter. ``learning_rate`` > 0: lr. ``sigma_learning_rate`` >= 0: lr_sigma, None:
    ``(3 + ln M) / (5 sqrt M)``. ``shaping``: nes_utilities | centred_rank | z_score | centred | raw; of mirrored pairs
    pair_z_score | pair_rank | pair_rank_cubed. ``lr_schedule``: factor on lr by generation. ``layers``: factors on the
    initial sigma and on lr by pattern of parameter names. Raises ConfigError.
    """

    factors = (SIGMA, RATE)

    def __init__(
        self,
        sigma: float = 0.05,
        learning_rate: float = 1.0,
        sigma_learning_rate: float | None = None,
        shaping: str = "nes_utilities",
        lr_schedule: Schedule = CONSTANT,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(sigma, non_finite, layers)
        self.learning_rate = number("algo.learning_rate", learning_rate, above=0.0)
        if sigma_learning_rate is not None:
            number("algo.sigma_learning_rate", sigma_learning_rate, low=0.0)
        self.sigma_learning_rate = sigma_learning_rate
        self._shape = shaping_of("algo.shaping", shaping)
        self.needs_pairs = shaping in PAIR_SHAPINGS
        self._schedule = lr_schedule

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        spread, self._rates = self._begin(centre, layout), self._layers.spread(centre.device, RATE)
        self._scale = torch.full_like(centre, self.sigma)
        if spread is not None:
            self._scale *= spread
        if self.sigma_learning_rate is None:
            self.sigma_learning_rate = (3 + math.log(layout.size)) / (5 * math.sqrt(layout.size))

    def rate_at(self, generation: int) -> float:
        return self.learning_rate * self._schedule.factor(generation)

    @property
    def needs_parameters(self) -> str | None:
        return "learns a step size of each parameter from the squares of its noise"

    def ask(self, generation: int) -> Proposal:
        return Proposal.around(self._centre, self._scale)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        weights = self._shape(fitness) / len(fitness)
        return Combination(np.array([weights, weights]), (1, 2))

    def tell(self, generation: int, sums: Tensor) -> None:
        assert self.sigma_learning_rate is not None
        scale = self._scale if self._rates is None else self._scale * self._rates
        self._centre.addcmul_(scale, sums[0], value=self.learning_rate * self._schedule.factor(generation))
        self._scale.mul_(torch.exp(0.5 * self.sigma_learning_rate * sums[1]))

    def _tensors(self) -> dict[str, Tensor]:
        return {"centre": self._centre, "sigma": self._scale}

    def _scalars(self) -> dict[str, float]:
        return {}
