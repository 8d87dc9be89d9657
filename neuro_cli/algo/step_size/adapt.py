"""Step size and learning rate that adapt (``algo.adapt``) to the fitnesses and sums of past generations.

``csa``: cumulative step-size adaptation, Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772, equations 43 and 44,
with covariance sigma**2 I: consecutive steps in one direction lengthen a path, and sigma grows.
``psr``: population success rule, Loshchilov, "A computationally efficient limited memory CMA-ES for large scale optimization",
GECCO 2014, section 3.3: sigma grows while a generation ranks better than the one before.
``snr``: Nomura, Akimoto, Ono, "CMA-ES with learning rate adaptation", GECCO 2023, for the mean: the rate keeps the ratio of
signal to noise in the estimates at a constant times itself.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import State
from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.shaping import ranks

NONE, CSA, PSR, SNR = "none", "csa", "psr", "snr"
STILL = {"sigma": NONE, "lr": NONE}  # nothing adapts
SUCCESS, MEMORY, DAMPING = 0.25, 0.3, 1.0  # psr: z*, c_sigma, d_sigma
ALPHA, BETA, GAMMA = 1.4, 0.1, 0.1  # snr


class Adaptation:
    """Factors on sigma and on the learning rate. ``adapt``: {sigma: none | csa | psr, lr: none | snr}. Raises ConfigError.

    ``sigma`` > 0 and ``rate`` in (0, 1]: the present factors, 1 at first. ``mirrored``: members are in mirrored pairs.
    """

    def __init__(self, adapt: Mapping[str, Any] = STILL) -> None:
        if not isinstance(adapt, Mapping):
            raise ConfigError("algo.adapt", adapt, "must be {sigma: none | csa | psr, lr: none | snr}")
        for name, value in adapt.items():
            if name not in STILL:
                raise ConfigError(f"algo.adapt.{name}", value, "must be sigma or lr")
        chosen = STILL | dict(adapt)
        self.of_sigma = one_of("algo.adapt.sigma", chosen["sigma"], (NONE, CSA, PSR))
        self.of_rate = one_of("algo.adapt.lr", chosen["lr"], (NONE, SNR))
        self.sigma = self.rate = 1.0

    @property
    def is_used(self) -> bool:
        """Return whether sigma or the learning rate adapts."""
        return (self.of_sigma, self.of_rate) != (NONE, NONE)

    def start(self, centre: Tensor, population: int) -> None:
        """Begin to adapt, with a centre (M,) and a number of members."""
        self.sigma = self.rate = 1.0
        self._success = 0.0  # psr: smoothed success
        self._square = 0.0  # snr: moving mean of squared lengths
        self._path = torch.zeros_like(centre, dtype=torch.float32) if self.of_sigma == CSA else None
        self._mean = torch.zeros_like(centre, dtype=torch.float32) if self.of_rate == SNR else None
        self._before = torch.zeros(0, dtype=torch.float64)  # psr: fitnesses of the generation before

    def meet(self, fitness: np.ndarray, utilities: np.ndarray, mirrored: bool) -> None:
        """Take the fitnesses (P,) of a generation and their utilities to adapt by; :meth:`learn` uses the last ones."""
        self._fitness, self.utilities, self._mirrored = fitness, utilities, mirrored

    def learn(self, estimate: Tensor) -> None:
        """Adapt to a generation by ``estimate`` (M,), the sum over i of u_i eps_i. Call this before a step overwrites it."""
        if self.of_sigma == CSA:
            self._lengthen(estimate)
        elif self.of_sigma == PSR:
            self._compare()
        if self.of_rate == SNR:
            self._weigh(estimate)

    def _lengthen(self, estimate: Tensor) -> None:
        """Adapt sigma by cumulative step-size adaptation."""
        u, n = self.utilities, estimate.numel()
        merged = u[0::2] - u[1::2] if self._mirrored else u
        norm, better = float(np.sqrt((merged**2).sum())), np.maximum(u, 0.0)
        if norm == 0:
            return  # all members are equal
        mass = better.sum() ** 2 / (better**2).sum()
        rate = (mass + 2) / (n + mass + 5)
        damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (n + 1)) - 1) + rate
        assert self._path is not None
        # the sum over norm is N(0, I) without selection, as the tutorial's sqrt(mu_eff) <y>_w is
        self._path.mul_(1 - rate).add_(estimate, alpha=math.sqrt(rate * (2 - rate)) / norm)
        expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
        self.sigma *= math.exp(min(1.0, rate / damping * (_length(self._path) / expected - 1)))

    def _compare(self) -> None:
        """Adapt sigma by the population success rule: mean ranks of this generation and the one before, among both."""
        before, size = self._before.numpy(), len(self._fitness)
        if len(before) == size:
            placed = ranks(np.concatenate([before, self._fitness]))
            gain = (placed[size:].sum() - placed[:size].sum()) / size**2 - SUCCESS
            self._success = (1 - MEMORY) * self._success + MEMORY * gain
            self.sigma *= math.exp(self._success / DAMPING)
        self._before = torch.from_numpy(np.array(self._fitness, np.float64))

    def _weigh(self, estimate: Tensor) -> None:
        """Adapt the learning rate to the ratio of signal to noise."""
        assert self._mean is not None
        self._mean.mul_(1 - BETA).add_(estimate, alpha=BETA)
        self._square = (1 - BETA) * self._square + BETA * _length(estimate) ** 2
        mean_square = _length(self._mean) ** 2
        noise = self._square - mean_square
        if noise <= 0:
            return  # there is no estimate yet
        ratio = (mean_square - BETA / (2 - BETA) * self._square) / noise
        change = min(1.0, max(-1.0, ratio / (ALPHA * self.rate) - 1))
        self.rate = min(1.0, self.rate * math.exp(min(GAMMA * self.rate, BETA) * change))

    def state(self) -> State:
        """Return the state under ``adapt.<name>``, empty where nothing adapts."""
        if not self.is_used:
            return State()
        tensors = {"adapt.before": self._before.clone()}
        tensors |= {f"adapt.{name}": tensor.clone() for name, tensor in self._vectors().items()}
        return State(tensors, {"adapt": [self.sigma, self.rate, self._success, self._square]})

    def restore(self, state: State) -> None:
        """Restore a :meth:`state` of the adaptation; other entries of ``state`` are ignored."""
        if not self.is_used:
            return
        self._before = state.tensors["adapt.before"].cpu().clone()
        for name, tensor in self._vectors().items():
            tensor.copy_(state.tensors[f"adapt.{name}"])
        self.sigma, self.rate, self._success, self._square = map(float, state.scalars["adapt"])

    def _vectors(self) -> dict[str, Tensor]:
        tensors = {"path": self._path, "mean": self._mean}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _length(vector: Tensor) -> float:
    """Return the Euclidean norm, summed in float64."""
    return float(vector.double().square().sum().sqrt())
