"""xNES: exponential natural evolution strategy with a full covariance, for small networks.

Glasmachers, Schaul, Sun, Wierstra, Schmidhuber, "Exponential natural evolution strategies", GECCO 2010; algorithm 5 and defaults
as in Wierstra et al., "Natural evolution strategies", JMLR 15, 2014. Members are m + sigma B z; B has determinant 1.

Legend: P members, M parameters.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, State, non_finite_of
from neuro_cli.algo.layers import SIGMA, Layers
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.shaping import nes_utilities

MOST = 1024  # most parameters: beyond it the exponential of their matrix takes seconds


class XNES(PopulationAlgorithm):
    """Steps ``m += lr sigma B g``, ``sigma *= exp(rate / 2 tr G / M)``, ``B *= expm(rate / 2 (G - tr G / M I))``.

    g and G are the sums of u_i z_i and u_i (z_i z_i^T - I) over the members, u the utilities by rank with sum 0. ``sigma`` > 0:
    initial step size. ``learning_rate`` > 0: lr. ``covariance_rate`` >= 0: rate, None: ``(9 + 3 ln M) / (5 M sqrt M)``.
    ``layers``: factors on the initial sigma by pattern of parameter names. For at most 1,024 parameters. Raises ConfigError.
    """

    sums_add_up = False  # the sums are the noise of members, not an estimate

    def __init__(
        self,
        sigma: float = 0.05,
        learning_rate: float = 1.0,
        covariance_rate: float | None = None,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
    ) -> None:
        self.non_finite = non_finite_of(non_finite)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self.learning_rate = number("algo.learning_rate", learning_rate, above=0.0)
        if covariance_rate is not None:
            number("algo.covariance_rate", covariance_rate, low=0.0)
        self.covariance_rate = covariance_rate
        self._layers = Layers(layers, (SIGMA,))

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        size = layout.size
        if size > MOST:
            allowed = f"its matrix serves at most {MOST:,} parameters, not {size:,}; cr_fm_nes, sep_cma_es and snes have none"
            raise ConfigError("algo", "xnes", allowed)
        self._centre, self._size = centre.clone(), self.sigma
        self._layers.start(layout)
        spread = self._layers.spread(centre.device)
        self._form = torch.eye(size, dtype=torch.float64, device=centre.device) if spread is None else spread.double().diag()
        usual = (9 + 3 * math.log(size)) / (5 * size * math.sqrt(size))
        self._rate = usual if self.covariance_rate is None else self.covariance_rate

    @property
    def centre(self) -> Tensor:
        return self._centre

    def sigma_at(self, generation: int) -> float:
        return float((self._size * self._form.square().sum(1).sqrt()).mean().float())

    def rate_at(self, generation: int) -> float:
        return self.learning_rate

    @property
    def needs_parameters(self) -> str | None:
        return "learns a covariance from the noise of every member"

    def can_shape_parts(self) -> bool:
        return False  # the algorithm asks for each member's noise, whatever its weight

    def ask(self, generation: int) -> Proposal:
        form, scale = self._form, torch.tensor([self._size], dtype=torch.float32, device=self._centre.device)

        def turned(noise: Tensor) -> Tensor:
            # row by row: a product of matrices may round a row by the others' number, which ranks decide
            return torch.stack([form.mv(row) for row in noise.double()]).to(noise.dtype)

        return Proposal(self._centre[None], None, scale, transform=turned)

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._utilities = nes_utilities(fitness) / len(fitness)
        return Combination(np.eye(len(fitness)), (1,) * len(fitness))  # row i of the sums is the noise of member i

    def tell(self, generation: int, sums: Tensor) -> None:
        noise = sums.double()
        utilities = torch.from_numpy(self._utilities).to(noise.device)
        step = utilities @ noise
        by_form = (noise.T * utilities) @ noise  # the utilities' sum is 0, so that of u_i I is none
        by_size = float(by_form.diagonal().mean())
        self._centre.add_((self.learning_rate * self._size * (self._form @ step)).float())
        by_form.diagonal().sub_(by_size)
        self._form = self._form @ torch.linalg.matrix_exp(self._rate / 2 * by_form)
        self._size *= math.exp(self._rate / 2 * by_size)

    def state(self) -> State:
        return State({"centre": self._centre.clone(), "form": self._form.clone()}, {"sigma": self._size})

    def restore(self, state: State) -> None:
        self._centre.copy_(state.tensors["centre"])
        self._form = state.tensors["form"].clone()
        self._size = float(state.scalars["sigma"])
