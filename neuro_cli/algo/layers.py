"""Factors on the step size and on the learning rate of single parameters, by patterns of their names (``algo.layers``)."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from neuro_cli.algo.base import LayerScale, Proposal
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError, nearest
from neuro_cli.core.layout import ParameterLayout

SIGMA, RATE = "sigma", "lr"


class Layers:
    """Factors by pattern: ``{"head.*": {"sigma": 0.5, "lr": 2.0}}``; sigma > 0, lr >= 0. The last that fits a name counts.

    Patterns are those of a shell (``*``, ``?``), for names as ``named_parameters`` has them. Raises ConfigError.
    """

    def __init__(self, layers: Mapping[str, Any] | None = None) -> None:
        if layers is not None and not isinstance(layers, Mapping):
            raise ConfigError("algo.layers", layers, "must be a mapping of patterns, such as {head.*:{sigma:0.5,lr:2}}")
        self._patterns = {str(pattern): _checked(str(pattern), factors) for pattern, factors in (layers or {}).items()}

    def start(self, layout: ParameterLayout) -> None:
        """Find the parameters of each pattern. Raises ConfigError for one that fits none."""
        names = [place.name for place in layout.places]
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"algo.layers.{pattern}", self._patterns[pattern], f"it fits no parameter; {_of(pattern, names)}"
                )
        self._layout = layout
        self._sigmas = {name: self._factor(SIGMA, name) for name in names}
        self._rates = {name: self._factor(RATE, name) for name in names}

    def _factor(self, kind: str, name: str) -> float:
        found = [factors[kind] for pattern, factors in self._patterns.items() if kind in factors and fnmatchcase(name, pattern)]
        return found[-1] if found else 1.0

    @property
    def rates(self) -> list[float] | None:
        """Factors on the learning rate, of each parameter in order; None where all are 1."""
        return list(self._rates.values()) if set(self._rates.values()) != {1.0} else None

    @property
    def mean_sigma(self) -> float:
        """Mean factor on the step size over all M parameters."""
        return sum(self._sigmas[place.name] * (place.stop - place.start) for place in self._layout.places) / self._layout.size

    def spread(self, device: torch.device, kind: str = SIGMA) -> Tensor | None:
        """Factors (M,) float32, on the step size or on the learning rate; None where all are 1."""
        factors = self._sigmas if kind == SIGMA else self._rates
        if set(factors.values()) == {1.0}:
            return None
        made = torch.empty(self._layout.size, device=device)
        for place in self._layout.places:
            made[place.start : place.stop] = factors[place.name]
        return made

    def derivative(self, estimate: Tensor) -> Tensor:
        """``estimate`` (M,) of a derivative by steps of :meth:`around`, in units of sigma, as one by the parameters."""
        spread = self.spread(estimate.device)
        return estimate if spread is None else estimate.div_(spread)

    def around(self, centre: Tensor, sigma: float) -> Proposal:
        """Members around one ``centre`` (M,), every parameter with ``sigma`` times its factor."""
        spread = self.spread(centre.device)
        if spread is None:
            return Proposal.around(centre, sigma)
        rounded = Proposal.around(centre, sigma).sigma  # to float32, as without factors
        return Proposal(centre[None], None, rounded * spread, layers=LayerScale(rounded, self._sigmas))


def _checked(pattern: str, factors: Any) -> dict[str, float]:
    key = f"algo.layers.{pattern}"
    if not isinstance(factors, Mapping) or not factors:
        raise ConfigError(key, factors, "must be {sigma: FACTOR, lr: FACTOR}, or one of them")
    for name in factors:
        if name not in (SIGMA, RATE):
            raise ConfigError(f"{key}.{name}", factors[name], "must be sigma or lr, a factor on the algorithm's")
    made = {}
    if SIGMA in factors:
        made[SIGMA] = number(f"{key}.{SIGMA}", factors[SIGMA], above=0.0)
    if RATE in factors:
        made[RATE] = number(f"{key}.{RATE}", factors[RATE], low=0.0)
    return made


def _of(pattern: str, names: list[str]) -> str:
    """A clause that names the parameters nearest to ``pattern``, or all of a small network."""
    return nearest(pattern, names) if len(names) > 8 else f"the network has {', '.join(names)}"
