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

from neuro_cli.algo.base import Combination
from neuro_cli.algo.covariance.full import FullCovariance
from neuro_cli.core.checks import number
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.shaping import nes_utilities


class XNES(FullCovariance):
    """Steps ``m += lr sigma B g``, ``sigma *= exp(rate / 2 tr G / M)``, ``B *= expm(rate / 2 (G - tr G / M I))``.

    g and G are the sums of u_i z_i and u_i (z_i z_i^T - I) over the members, u the utilities by rank with sum 0. ``sigma`` > 0:
    initial step size. ``learning_rate`` > 0: lr. ``covariance_rate`` >= 0: rate, None: ``(9 + 3 ln M) / (5 M sqrt M)``.
    ``layers``: factors on the initial sigma by pattern of parameter names. For at most 1,024 parameters. Raises ConfigError.
    """

    name = "xnes"

    def __init__(
        self,
        sigma: float = 0.05,
        learning_rate: float = 1.0,
        covariance_rate: float | None = None,
        non_finite: str = "raise",
        layers: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(sigma, non_finite, layers)
        self.learning_rate = number("algo.learning_rate", learning_rate, above=0.0)
        if covariance_rate is not None:
            number("algo.covariance_rate", covariance_rate, low=0.0)
        self.covariance_rate = covariance_rate

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        super().start(centre, layout, population, seed)
        size = layout.size
        usual = (9 + 3 * math.log(size)) / (5 * size * math.sqrt(size))
        self._rate = usual if self.covariance_rate is None else self.covariance_rate

    def rate_at(self, generation: int) -> float:
        return self.learning_rate

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        self._utilities = nes_utilities(fitness) / len(fitness)
        return self.each(fitness)

    def tell(self, generation: int, sums: Tensor) -> None:
        noise = sums.double()
        utilities = torch.from_numpy(self._utilities).to(noise.device)
        step = utilities @ noise
        by_form = (noise.T * utilities) @ noise  # the utilities' sum is 0, so that of u_i I is none
        by_size = float(by_form.diagonal().mean())
        self._centre.add_((self.learning_rate * self._size * (self._form @ step)).to(self._centre.dtype))
        by_form.diagonal().sub_(by_size)
        # the matrix is symmetric, and torch.linalg.matrix_exp errs by 1e-12 where its norm is near 0.05
        values, axes = torch.linalg.eigh(by_form)
        self._form = self._form @ ((axes * (self._rate / 2 * values).exp()) @ axes.T)
        self._size *= math.exp(self._rate / 2 * by_size)

    def _tensors(self) -> dict[str, Tensor]:
        return {"centre": self._centre, "form": self._form}
