"""Algorithms with a full covariance, for few parameters: members are m + sigma A z, and their noise is learnt member by member.

Legend: P members, M parameters.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, PopulationAlgorithm, Proposal, non_finite_of
from neuro_cli.algo.layers import SIGMA, Layers
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout

MOST = 1024  # most parameters: beyond it a decomposition or an exponential of their matrix takes seconds
MOST_MEMBERS = 8192  # their weights are a matrix of P x P: 512 MB here, 75 GB for 100,000


class FullCovariance(PopulationAlgorithm):
    """Base with centre m (M,), step size sigma and form A (M, M) float64; ``tell`` gets the noise z of every member.

    ``name``: the option's. ``sigma`` > 0: initial step size. ``layers``: factors on it by pattern of parameter names. For at most
    1,024 parameters and 8,192 members. Raises ConfigError.
    """

    name: str
    sums_add_up = False  # the sums are the noise of members, not an estimate
    _form: Tensor

    def __init__(self, sigma: float, non_finite: str, layers: Mapping[str, Any] | None) -> None:
        self.non_finite = non_finite_of(non_finite)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self._layers = Layers(layers, (SIGMA,))

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        size = layout.size
        if size > MOST:
            allowed = f"its matrix serves at most {MOST:,} parameters, not {size:,}; cr_fm_nes, sep_cma_es and snes have none"
            raise ConfigError("algo", self.name, allowed)
        if population > MOST_MEMBERS:
            allowed = f"algo={self.name} sums the noise of each member: at most {MOST_MEMBERS:,}; sep_cma_es and snes take more"
            raise ConfigError("population", population, allowed)
        self._centre, self._size = centre.clone(), self.sigma
        self._layers.start(layout)
        spread = self._layers.spread(centre.device)
        self._form = torch.eye(size, dtype=torch.float64, device=centre.device) if spread is None else spread.double().diag()

    @property
    def centre(self) -> Tensor:
        return self._centre

    def deviations(self, generation: int) -> Tensor:
        return self._size * self._form.square().sum(1).sqrt()

    def condition(self, generation: int) -> float:
        singular = torch.linalg.svdvals(self._form)
        return float((singular[0] / singular[-1]) ** 2)

    def sigma_at(self, generation: int) -> float:
        return float(self.deviations(generation).mean().float())

    @property
    def needs_parameters(self) -> str | None:
        return "learns a covariance from the noise of every member"

    def can_shape_parts(self) -> bool:
        return False  # the algorithm asks for each member's noise, whatever its weight

    def ask(self, generation: int) -> Proposal:
        form, scale = self._form, torch.tensor([self._size], dtype=self._centre.dtype, device=self._centre.device)

        def turned(noise: Tensor) -> Tensor:
            # row by row: a product of matrices may round a row by the others' number, which ranks decide
            return torch.stack([form.mv(row) for row in noise.double()]).to(noise.dtype)

        return Proposal(self._centre[None], None, scale, transform=turned)

    def each(self, fitness: np.ndarray) -> Combination:
        """Return the combination whose row i is the noise of member i."""
        return Combination(np.eye(len(fitness)), (1,) * len(fitness))
