"""Noise scaled by one factor for each parameter, for a forward pass over many members."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from torch import Tensor

from neuro_cli.core.layout import Place
from neuro_cli.sampler.base import Operator, Perturbation


class LayerScaled(Perturbation):
    """Perturbation ``noise`` with every parameter's noise times its factor in ``factors``, by name."""

    def __init__(self, noise: Perturbation, factors: Mapping[str, float]) -> None:
        self._noise, self._factors, self.rows = noise, factors, noise.rows

    def _scaled(self, place: Place) -> AbstractContextManager[None]:
        """Scale the rows by the factor of ``place`` within the context."""
        return self._noise.of(self.rows.scaled(self._factors[place.name]))

    def layer(
        self, place: Place, shift: Place | None, x: Tensor, weight: Tensor, bias: Tensor | None, operator: Operator
    ) -> Tensor | None:
        if shift is not None and self._factors[shift.name] != self._factors[place.name]:
            return None  # the fused step has one scale for weight and bias
        with self._scaled(place):
            return self._noise.layer(place, shift, x, weight, bias, operator)

    def apply(self, place: Place, x: Tensor, y: Tensor, operator: Operator) -> Tensor:
        with self._scaled(place):
            return self._noise.apply(place, x, y, operator)

    def vectors(self, place: Place) -> Tensor:
        return self._factors[place.name] * self._noise.vectors(place)

    def values(self, place: Place) -> Tensor:
        return self._factors[place.name] * self._noise.values(place)

    def lines(self, place: Place, index: Tensor) -> Tensor:
        return self._factors[place.name] * self._noise.lines(place, index)

    def add_lines(self, place: Place, index: Tensor, y: Tensor) -> Tensor:
        with self._scaled(place):
            return self._noise.add_lines(place, index, y)
