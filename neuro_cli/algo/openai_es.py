"""OpenAI-ES: the centre of an isotropic Gaussian of fixed width follows the estimated gradient.

Salimans, Ho, Chen, Sidor, Sutskever, "Evolution strategies as a scalable alternative to reinforcement learning", 2017,
algorithm 1, with rank shaping, an optimizer and L2 weight decay as in section 2.1 and its code.
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
from neuro_cli.algo.step_size.adapt import NONE, STILL, Adaptation
from neuro_cli.algo.step_size.auto import AUTO, auto_of
from neuro_cli.algo.step_size.layer_factors import Layers
from neuro_cli.core.checks import number, number_or, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT, Schedule
from neuro_cli.core.shaping import PAIR_SHAPINGS, of_top_pairs, raw, shaping_of

ADAM: OptimizerFactory = partial(torch.optim.Adam, lr=None)  # type: ignore[arg-type]  # its rate is by size


class OpenAIES(OptimizedCentre, PopulationAlgorithm):
    """Ascends ``g = 1/(P sigma) sum_i u_i eps_i``, less ``weight_decay * centre``, by ``optimizer``.

    ``sigma`` > 0: standard deviation of the perturbations. ``optimizer``: a function of parameters that makes a torch optimizer.
    None for ``sigma`` or the optimizer's ``lr``: 0.05 and 0.02 by size (:func:`neuro_cli.algo.step_size.by_size.by_size`);
    "auto": chosen at the start by a table of gains (:mod:`neuro_cli.algo.step_size.auto`).
    ``shaping``: the utilities u are centred_rank | nes_utilities | z_score | centred | raw of the fitnesses; of mirrored pairs
    pair_z_score | pair_rank | pair_rank_cubed. ``top_share`` in (0, 1]: share of the pairs that count, those with the best
    better sides, as in :class:`~neuro_cli.algo.ars.ARS`; below 1 it needs a shaping of pairs. ``weight_decay`` >= 0.
    ``sigma_schedule``, ``lr_schedule``: factors by generation. ``layers``: factors on sigma and learning rate by pattern
    of parameter names. ``adapt``: {sigma: none | csa | psr, lr: none | snr}, rules by which they change
    (:mod:`neuro_cli.algo.step_size.adapt`); the rate goes with sigma. ``average`` in [0, 1): share of the past in the average
    of centres that is evaluated and saved. ``by_inputs``: sigma and the steps of a layer are divided by its number of inputs to
    this power. Raises ConfigError.
    """

    def __init__(
        self,
        sigma: float | str | None = None,
        optimizer: OptimizerFactory = ADAM,
        shaping: str = "centred_rank",
        weight_decay: float = 0.0,
        sigma_schedule: Schedule = CONSTANT,
        lr_schedule: Schedule = CONSTANT,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
        adapt: Mapping[str, Any] = STILL,
        average: float = 0.0,
        by_inputs: float = 0.0,
        top_share: float = 1.0,
    ) -> None:
        self._average = number("algo.average", average, low=0.0, below=1.0)
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        given = None if sigma is None else number_or("algo.sigma", sigma, AUTO, above=0.0)
        self._sigma_given = given if isinstance(given, float) else None
        self.auto = auto_of(sigma, optimizer)
        self.weight_decay = number("algo.weight_decay", weight_decay, low=0.0)
        self._shape = shaping_of("algo.shaping", shaping)
        self.needs_pairs, self.proportional = shaping in PAIR_SHAPINGS, self._shape is raw
        self._top_share = number("algo.top_share", top_share, above=0.0, high=1.0)
        if self._top_share < 1.0 and not self.needs_pairs:
            raise ConfigError("algo.top_share", top_share, f"algo.shaping must be one of pairs: {' or '.join(PAIR_SHAPINGS)}")
        self._factory = optimizer
        self._sigma_schedule, self._lr_schedule = sigma_schedule, lr_schedule
        self._layers = Layers(layers, by_inputs=number("algo.by_inputs", by_inputs, low=0.0))
        self._adapt = Adaptation(adapt)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._layers.start(layout)
        self._adapt.start(centre, population)
        self.sigma, factory = self.sigma_for(layout), self.factory_for(layout)
        self._optimizer = CentreOptimizer(factory, self._lr_schedule, centre, layout, self._layers.rates, self._average)

    def sigma_at(self, generation: int) -> float:
        return self._sigma(generation) * self._adapt.sigma * self._layers.mean_sigma

    def rate_at(self, generation: int) -> float:
        return super().rate_at(generation) * self._adapt.sigma * self._adapt.rate

    def _sigma(self, generation: int) -> float:
        """Return the scheduled standard deviation of parameters with factor 1."""
        return max(self.sigma * self._sigma_schedule.factor(generation), 1e-12)

    @property
    def needs_parameters(self) -> str | None:
        by = self._adapt.of_sigma
        return f"adapts sigma by algo.adapt.sigma={by}, from members that are networks" if by != NONE else None

    def ask(self, generation: int) -> Proposal:
        return self._layers.around(self.centre, self._sigma(generation) * self._adapt.sigma)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        share = self._top_share
        utilities = self._shape(fitness) if share == 1.0 else of_top_pairs(fitness, share, self._shape)
        self._adapt.meet(fitness, utilities, self.mirrored)
        # units of the scheduled sigma: where sigma adapts, the rate scales any optimizer's steps with it
        divisor = len(fitness) * self._sigma(generation)
        return Combination(utilities[None] / divisor, (1,), 1 / divisor if self.proportional else None)

    def can_shape_parts(self) -> bool:
        return not self._adapt.is_used

    def tell(self, generation: int, sums: Tensor) -> None:
        factor = self._adapt.sigma * self._adapt.rate
        if self._adapt.is_used:
            self._adapt.learn(sums[0] * len(self._adapt.utilities) * self._sigma(generation))
        self._optimizer.ascend(generation, self._layers.derivative(sums[0]), self.weight_decay, factor)

    @property
    def spans(self) -> list[tuple[int, int]] | None:
        return None if self._adapt.is_used or self._layers.rates or self._layers.factored else self._optimizer.spans

    def tell_span(self, generation: int, sums: Tensor, start: int) -> None:
        self._optimizer.ascend_span(generation, sums[0], start, self.weight_decay)

    def state(self) -> State:
        own, adapted = super().state(), self._adapt.state()
        return State(own.tensors | adapted.tensors, own.scalars | adapted.scalars)

    def restore(self, state: State) -> None:
        super().restore(state)
        self._adapt.restore(state)
