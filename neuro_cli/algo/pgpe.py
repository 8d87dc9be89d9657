"""PGPE: policy gradients with parameter-based exploration, by mirrored pairs, with one step size per parameter.

Sehnke, Osendorp, Rückstieß, Graves, Peters, Schmidhuber, "Parameter-exploring policy gradients", Neural Networks 23, 2010,
section 2.3 (symmetric sampling); with ClipUp and a limit on the change of sigma as in Toklu, Liskowski, Srivastava 2020.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import NON_FINITE, Combination, PopulationAlgorithm, Proposal, State
from neuro_cli.algo.centre.optimizer import CentreOptimizer, OptimizedCentre
from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory
from neuro_cli.algo.clipup import ClipUp
from neuro_cli.algo.step_size.layer_factors import Layers
from neuro_cli.core.checks import number, one_of
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import shaping_of


class PGPE(OptimizedCentre, PopulationAlgorithm):
    """Steps of centre and sigma over the pairs of utilities u+, u- and their noise e, in units of sigma.

    The centre goes along the mean of ``sigma e (u+ - u-) / 2`` by ``optimizer``, a function of parameters that makes a torch
    optimizer; sigma by ``sigma_learning_rate`` >= 0 times the mean of ``sigma (e**2 - 1) ((u+ + u-) / 2 - b)``, b the mean
    utility, and by at most the share ``sigma_max_change`` in (0, 1] of itself. ``sigma_learning_rate`` 0: sigma stays, and one
    row of sums is needed instead of two. ``sigma`` > 0: initial step size of every parameter. ``shaping``: centred_rank |
    nes_utilities | z_score | centred | raw | pair_z_score | pair_rank | pair_rank_cubed. ``lr_schedule``: factor on the
    learning rate by generation. ``layers``: factors on the initial sigma and on the learning rate by pattern of parameter
    names. ``average`` in [0, 1): share of the past in the average of centres that is evaluated and saved. Raises ConfigError.
    """

    needs_pairs = True

    def __init__(
        self,
        sigma: float = 0.05,
        sigma_learning_rate: float = 0.1,
        sigma_max_change: float = 0.2,
        optimizer: OptimizerFactory = partial(ClipUp, lr=0.15),
        shaping: str = "centred_rank",
        lr_schedule: Schedule = CONSTANT,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
        average: float = 0.0,
    ) -> None:
        self._average = number("algo.average", average, low=0.0, below=1.0)
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self.sigma_learning_rate = number("algo.sigma_learning_rate", sigma_learning_rate, low=0.0)
        self.sigma_max_change = number("algo.sigma_max_change", sigma_max_change, above=0.0, high=1.0)
        self._shape = shaping_of("algo.shaping", shaping)
        self._factory, self._schedule = optimizer, lr_schedule
        self._layers = Layers(layers)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._layers.start(layout)
        self._optimizer = CentreOptimizer(self._factory, self._schedule, centre, layout, self._layers.rates, self._average)
        spread = self._layers.spread(centre.device)
        every = len(centre) if self.sigma_learning_rate or spread is not None else 1
        self._scale = torch.full((every,), self.sigma, dtype=torch.float32, device=centre.device)
        if spread is not None:
            self._scale *= spread

    def sigma_at(self, generation: int) -> float:
        return float(self._scale.mean(dtype=torch.float64).float())  # rounded: the last bits depend on threads

    @property
    def needs_parameters(self) -> str | None:
        learns = "learns a step size of each parameter from the squares of its noise (not with algo.sigma_learning_rate=0)"
        return learns if self.sigma_learning_rate else None

    def ask(self, generation: int) -> Proposal:
        if not self.sigma_learning_rate:  # sigma is still one number a layer, which one pass for many members can use
            return self._layers.around(self.centre, self.sigma)
        return Proposal.around(self.centre, self._scale)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        utilities = self._shape(fitness)
        along = utilities / len(fitness)
        if not self.sigma_learning_rate:
            return Combination(along[None], (1,))
        return Combination(np.array([along, (utilities - utilities.mean()) / len(fitness)]), (1, 2))

    def tell(self, generation: int, sums: Tensor) -> None:
        before = self._scale.clone()
        self._optimizer.ascend(generation, sums[0] * before)
        if self.sigma_learning_rate:
            self._scale.addcmul_(before, sums[1], value=self.sigma_learning_rate)
            change = self.sigma_max_change
            self._scale.clamp_((1 - change) * before, (1 + change) * before).clamp_(min=1e-12)

    def state(self) -> State:
        state = super().state()
        state.tensors["sigma"] = self._scale.clone()
        return state

    def restore(self, state: State) -> None:
        super().restore(state)
        self._scale.copy_(state.tensors["sigma"])
