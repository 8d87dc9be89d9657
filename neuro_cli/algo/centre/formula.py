"""Algorithms that move the centre by formulas of their own, without an optimizer."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from neuro_cli.algo.base import NON_FINITE, PopulationAlgorithm, State
from neuro_cli.algo.step_size.layer_factors import SIGMA, Layers
from neuro_cli.core.checks import number, one_of
from neuro_cli.core.layout import ParameterLayout


class OwnCentre(PopulationAlgorithm):
    """Base with a centre (M,) and, but for algorithms that learn a scale of each parameter alone, a step size.

    ``sigma`` > 0: initial step size. ``layers``: factors on it by pattern of parameter names. Raises ConfigError.
    """

    factors: Sequence[str] = (SIGMA,)  # kinds of factors that ``layers`` may have
    _centre: Tensor
    _size: float

    def __init__(self, sigma: float = 0.05, non_finite: str = "raise", layers: Mapping[str, Any] | None = None) -> None:
        self.non_finite = one_of("algo.non_finite", non_finite, NON_FINITE)
        self.sigma = number("algo.sigma", sigma, above=0.0)
        self._layers = Layers(layers, self.factors)

    def _begin(self, centre: Tensor, layout: ParameterLayout) -> Tensor | None:
        """Take the centre; return the factors on the initial step size, None where all are 1."""
        self._centre = centre.clone()
        self._layers.start(layout)
        return self._layers.spread(centre.device)

    @property
    def centre(self) -> Tensor:
        return self._centre

    def sigma_at(self, generation: int) -> float:
        # rounded: the last bits depend on threads
        return float(self.deviations(generation).mean(dtype=torch.float64).float())

    @abstractmethod
    def _tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the state, which :meth:`restore` writes to."""

    def _scalars(self) -> dict[str, float]:
        return {"sigma": self._size}

    def state(self) -> State:
        return State({name: tensor.clone() for name, tensor in self._tensors().items()}, self._scalars())

    def restore(self, state: State) -> None:
        for name, tensor in self._tensors().items():
            tensor.copy_(state.tensors[name])
        if self._scalars():
            self._size = float(state.scalars["sigma"])
