"""Algorithms with a full covariance, for few parameters: members are m + sigma A z, and their noise is learnt member by member.

Legend: P members, M parameters.
"""

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import Combination, Proposal
from neuro_cli.algo.centre.formula import OwnCentre
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout

MOST = 1024  # most parameters: beyond it a decomposition or an exponential of their matrix takes seconds
MOST_MEMBERS = 8192  # their weights are a matrix of P x P: 512 MB here, 75 GB for 100,000


class FullCovariance(OwnCentre):
    """Base with centre m (M,), step size sigma and form A (M, M) float64; ``tell`` gets the noise z of every member.

    ``name``: the option's. ``sigma`` > 0: initial step size. ``layers``: factors on it by pattern of parameter names. For at most
    1,024 parameters and 8,192 members. Raises ConfigError.
    """

    name: str
    sums_add_up = False  # the sums are the noise of members, not an estimate
    _form: Tensor

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        size = layout.size
        if size > MOST:
            allowed = f"its matrix serves at most {MOST:,} parameters, not {size:,}; cr_fm_nes, sep_cma_es and snes have none"
            raise ConfigError("algo", self.name, allowed)
        if population > MOST_MEMBERS:
            allowed = f"algo={self.name} sums the noise of each member: at most {MOST_MEMBERS:,}; sep_cma_es and snes take more"
            raise ConfigError("population", population, allowed)
        spread, self._size = self._begin(centre, layout), self.sigma
        self._form = torch.eye(size, dtype=torch.float64, device=centre.device) if spread is None else spread.double().diag()

    def deviations(self, generation: int) -> Tensor:
        return self._size * self._form.square().sum(1).sqrt()

    def condition(self, generation: int) -> float:
        singular = torch.linalg.svdvals(self._form)
        return float((singular[0] / singular[-1]) ** 2)

    @property
    def needs_parameters(self) -> str | None:
        return "learns a covariance from the noise of every member"

    def can_shape_parts(self) -> bool:
        return False  # the algorithm asks for each member's noise, whatever its weight

    def ask(self, generation: int) -> Proposal:
        form, scale = self._form, torch.tensor([self._size], dtype=self._centre.dtype, device=self._centre.device)

        def turned(noise: Tensor) -> Tensor:
            # a product of matrices may round a row by the others' number, which ranks decide; numpy's own sums do not
            if noise.device.type == "cpu":
                return torch.from_numpy(np.einsum("ij,nj->ni", form.contiguous().numpy(), noise.double().numpy())).to(noise.dtype)
            return torch.stack([form.mv(row) for row in noise.double()]).to(noise.dtype)

        return Proposal(self._centre[None], None, scale, transform=turned)

    def each(self, fitness: np.ndarray) -> Combination:
        """Return the combination whose row i is the noise of member i, for a full covariance."""
        return Combination(np.eye(len(fitness)), (1,) * len(fitness))
