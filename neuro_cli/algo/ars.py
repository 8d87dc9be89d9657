"""Augmented random search: steps along the best directions, in units of the deviation of their returns.

Mania, Guy, Recht, "Simple random search of static linear policies is competitive for reinforcement learning", NeurIPS 2018,
algorithm 2. V1 and V2 differ in the task's observations (``task.normalise``), V1-t and V2-t in ``top``.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import NON_FINITE, Combination, PopulationAlgorithm, Proposal
from neuro_cli.algo.centre.optimizer import CentreOptimizer, OptimizedCentre
from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory
from neuro_cli.algo.step_size.auto import AUTO, auto_of
from neuro_cli.algo.step_size.layer_factors import Layers
from neuro_cli.core.checks import integer, number, number_or, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import by_rank, is_flat


class ARS(OptimizedCentre, PopulationAlgorithm):
    """Steps ``centre += lr / (b s) * sum (F+ - F-) e`` over the b best directions, s the deviation of their 2 b fitnesses.

    ``top`` >= 1: b, None for all directions; a direction is as good as the better of its two sides. ``sigma`` > 0: standard
    deviation of the perturbations. ``optimizer``: a function of parameters that makes a torch optimizer, with lr. "auto" for
    ``sigma`` or ``lr``: chosen at the start by a table of gains (:mod:`neuro_cli.algo.step_size.auto`).
    ``lr_schedule``: factor on lr by generation. ``layers``: factors on sigma and lr by pattern of parameter names. ``average``
    in [0, 1): share of the past in the average of centres that is evaluated and saved. Raises ConfigError.
    """

    needs_pairs = True

    def __init__(
        self,
        sigma: float | str | None = 0.05,
        top: int | None = None,
        optimizer: OptimizerFactory = partial(torch.optim.SGD, lr=0.02),
        lr_schedule: Schedule = CONSTANT,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
        average: float = 0.0,
    ) -> None:
        self._average = number("algo.average", average, low=0.0, below=1.0)
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        given = None if sigma is None else number_or("algo.sigma", sigma, AUTO, above=0.0)
        self._sigma_given = given if isinstance(given, float) else None
        self.auto = auto_of(sigma, optimizer)
        self.top = None if top is None else integer("algo.top", top, 1)
        self._factory, self._schedule = optimizer, lr_schedule
        self._layers = Layers(layers)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        if self.top is not None and self.top > population // 2:
            raise ConfigError("algo.top", self.top, f"population={population} has {population // 2} directions")
        self._layers.start(layout)
        self.sigma, factory = self.sigma_for(layout), self.factory_for(layout)
        self._optimizer = CentreOptimizer(factory, self._schedule, centre, layout, self._layers.rates, self._average)

    def sigma_at(self, generation: int) -> float:
        return self.sigma * self._layers.mean_sigma

    def ask(self, generation: int) -> Proposal:
        return self._layers.around(self.centre, self.sigma)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        pairs = fitness.reshape(-1, 2)
        better, count = pairs.max(axis=1), self.top or len(pairs)
        shares = by_rank(better, np.arange(len(pairs)) >= len(pairs) - count)[:, None]  # ties share the last places
        order = np.argsort(-better, kind="stable")
        chosen = order[shares[order, 0] > 0]
        mean = (shares[chosen] * pairs[chosen]).sum() / (2 * count)
        spread = float(np.sqrt((shares[chosen] * (pairs[chosen] - mean) ** 2).sum() / (2 * count)))
        equal = is_flat(pairs[chosen].ravel()) or not spread > 0  # the spread of equal numbers may be their mean's rounding
        weights = np.zeros_like(pairs) if equal else shares * pairs / (count * spread)
        return Combination(weights.reshape(1, -1), (1,))

    def tell(self, generation: int, sums: Tensor) -> None:
        self._optimizer.ascend(generation, self._layers.derivative(sums[0]))

    def can_shape_parts(self) -> bool:
        return False
