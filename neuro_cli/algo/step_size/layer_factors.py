"""Factors on the step size and on the learning rate of single parameters, by patterns of their names (``algo.layers``)."""

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from neuro_cli.algo.base import LayerScale, Proposal
from neuro_cli.core.checks import number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.messages.did_you_mean import nearest

SIGMA, RATE = "sigma", "lr"


class Layers:
    """Factors of layers by pattern: ``{"head.*": {"sigma": 0.5, "lr": 2.0}}``; sigma > 0, lr >= 0. The last that fits counts.

    Patterns are a shell's (``*``, ``?``) for the names of ``named_parameters``. ``kinds``: sigma, lr or both, as the algorithm
    has them. ``by_inputs``: power p >= 0; the optimizer moves w I**p in place of each parameter w of a layer with I inputs, with
    steps of sigma and lr, so that both are divided by I**p. Raises ConfigError.
    """

    def __init__(
        self, layers: Mapping[str, Any] | None = None, kinds: Sequence[str] = (SIGMA, RATE), by_inputs: float = 0.0
    ) -> None:
        if layers is not None and not isinstance(layers, Mapping):
            raise ConfigError("algo.layers", layers, "must be a mapping of patterns, such as {head.*:{sigma:0.5,lr:2}}")
        self._by_inputs = by_inputs
        self._patterns = {str(pattern): _checked(str(pattern), factors, kinds) for pattern, factors in (layers or {}).items()}

    def start(self, layout: ParameterLayout) -> None:
        """Find the parameters of each pattern. Raises ConfigError for one that fits none."""
        names = [place.name for place in layout.places]
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"algo.layers.{pattern}", self._patterns[pattern], f"it fits no parameter; {_of(pattern, names)}"
                )
        self._layout = layout
        self._units = {name: inputs**-self._by_inputs for name, inputs in inputs_of(layout).items()}
        self._sigmas = {name: self._factor(SIGMA, name) * self._units[name] for name in names}
        self._rates = {name: self._factor(RATE, name) * self._units[name] for name in names}

    def _factor(self, kind: str, name: str) -> float:
        fits = [factors[kind] for pattern, factors in self._patterns.items() if kind in factors and fnmatchcase(name, pattern)]
        return fits[-1] if fits else 1.0

    @property
    def rates(self) -> list[float] | None:
        """Factors on the learning rate for each parameter in order; None where all are 1."""
        return list(self._rates.values()) if set(self._rates.values()) != {1.0} else None

    @property
    def factored(self) -> bool:
        """Return whether parameters of some layers have factors on the step size."""
        return set(self._sigmas.values()) != {1.0}

    @property
    def mean_sigma(self) -> float:
        """Mean factor on the step size over all M parameters."""
        return sum(self._sigmas[place.name] * (place.stop - place.start) for place in self._layout.places) / self._layout.size

    def spread(self, device: torch.device, kind: str = SIGMA) -> Tensor | None:
        """Return the factors (M,) float32 on the step size or on the learning rate; None where all are 1."""
        return self._spread(self._sigmas if kind == SIGMA else self._rates, device)

    def _spread(self, factors: Mapping[str, float], device: torch.device) -> Tensor | None:
        if set(factors.values()) == {1.0}:
            return None
        spread = torch.empty(self._layout.size, device=device, dtype=torch.float32)
        for place in self._layout.places:
            spread[place.start : place.stop] = factors[place.name]
        return spread

    def derivative(self, estimate: Tensor) -> Tensor:
        """Convert ``estimate`` (M,) of a derivative by steps of :meth:`around`, in units of sigma, to one of what is moved."""
        spread = self._spread({name: sigma / self._units[name] for name, sigma in self._sigmas.items()}, estimate.device)
        return estimate if spread is None else estimate.div_(spread)

    def around(self, centre: Tensor, sigma: float) -> Proposal:
        """Propose members around one ``centre`` (M,), with ``sigma`` times the factor of each parameter."""
        scale, layers = self.scale(sigma, centre.device)
        return Proposal(centre[None], None, scale, layers=layers)

    def scale(self, sigma: float, device: torch.device) -> tuple[Tensor, LayerScale | None]:
        """Return ``sigma`` times the factors, float32, (1,) where all are 1, else (M,); and the same by names for a proposal."""
        one = torch.tensor([sigma], dtype=torch.float32, device=device)
        spread = self.spread(device)
        return (one, None) if spread is None else (one * spread, LayerScale(one.item(), self._sigmas))


def inputs_of(layout: ParameterLayout) -> dict[str, int]:
    """Return the inputs I of the layer of each parameter, by name: of a weight (O, I, ...), also for its bias; else 1."""
    weights = {place.name: math.prod(place.shape[1:]) for place in layout.places}
    return {place.name: max(weights[place.name], weights.get(place.name.replace("bias", "weight"), 1)) for place in layout.places}


def _checked(pattern: str, factors: Any, kinds: Sequence[str]) -> dict[str, float]:
    key = f"algo.layers.{pattern}"
    if not isinstance(factors, Mapping) or not factors:
        form = ", ".join(f"{kind}: FACTOR" for kind in kinds)
        raise ConfigError(key, factors, f"must be {{{form}}}" + (", or one of them" if len(kinds) > 1 else ""))
    for name in factors:
        if name not in kinds:
            allowed = f"must be {' or '.join(kinds)}, a factor on the algorithm's"
            raise ConfigError(f"{key}.{name}", factors[name], allowed)
    checked = {}
    if SIGMA in factors:
        checked[SIGMA] = number(f"{key}.{SIGMA}", factors[SIGMA], above=0.0)
    if RATE in factors:
        checked[RATE] = number(f"{key}.{RATE}", factors[RATE], low=0.0)
    return checked


def _of(pattern: str, names: list[str]) -> str:
    """Return a clause that names the parameters nearest to ``pattern``, or all of a small network."""
    return nearest(pattern, names) if len(names) > 8 else f"the network has {', '.join(names)}"
