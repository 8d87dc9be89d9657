"""Running mean and variance of observations, and the module that carries them.

Salimans et al. 2017, section 2.1 (virtual batch norm's stand-in for low-dimensional observations: normalise by statistics
of all that the population saw); Mania, Guy, Recht, "Simple random search provides a competitive approach to reinforcement
learning", 2018, algorithm 2 (V2).

Sums travel as means over a member's episodes of z and z**2, where z is an observation in the units of the statistics that
it met: additive over episodes, members and ranks, near 1 in size, and so well kept in float32.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LEAST_VARIANCE = 1e-2  # of an observation's number that hardly ever moves (the code of Salimans et al.)


class ObservationStatistics:
    """Of I numbers: ``count`` observations, their ``mean`` (I,) and the ``squares`` (I,) about it, all float64."""

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean, self.squares = np.zeros(size), np.zeros(size)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations (I,) float64, 1 before anything was seen."""
        if not self.count:
            return np.ones_like(self.mean)
        return np.sqrt(np.maximum(self.squares / self.count, LEAST_VARIANCE))

    def float32(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and inverse deviation (I,) float32, as policies use them."""
        return self.mean.astype(np.float32), (1 / self.deviation).astype(np.float32)

    def add(self, count: float, sums: np.ndarray, squares: np.ndarray) -> None:
        """Take in ``count`` observations with the sums (I,) of z and of z**2 (Chan, Golub, LeVeque 1979, equation 2.1)."""
        if count <= 0:
            return
        deviation = self.deviation
        shift = deviation * sums / count
        within = deviation**2 * np.maximum(squares - sums**2 / count, 0.0)
        total = self.count + count
        self.squares = self.squares + within + shift**2 * (self.count * count / total)
        self.mean = self.mean + shift * (count / total)
        self.count = total

    def state(self) -> dict[str, Tensor]:
        return {
            "count": torch.tensor([self.count], dtype=torch.float64),
            "mean": torch.from_numpy(self.mean.copy()),
            "squares": torch.from_numpy(self.squares.copy()),
        }

    @staticmethod
    def of(state: dict[str, Tensor]) -> "ObservationStatistics":
        """What :meth:`state` gave."""
        made = ObservationStatistics(state["mean"].numel())
        made.count = float(state["count"])
        made.mean, made.squares = (state[name].cpu().double().numpy().copy() for name in ("mean", "squares"))
        return made


class NormalisedPolicy(nn.Module):
    """``policy`` on observations (B, I) that it normalises itself: clamp((x - mean) * inverse, -clip, clip)."""

    mean: Tensor
    inverse: Tensor

    def __init__(self, policy: nn.Module, statistics: ObservationStatistics, clip: float) -> None:
        super().__init__()
        mean, inverse = map(torch.from_numpy, statistics.float32())
        device = next((parameter.device for parameter in policy.parameters()), torch.device("cpu"))
        self.policy, self.clip = policy, clip
        self.register_buffer("mean", mean.to(device))
        self.register_buffer("inverse", inverse.to(device))

        if callable(getattr(policy, "reset", None)):
            self.reset = policy.reset

    def forward(self, observations: Tensor, *states: Any) -> Any:
        """What ``policy`` gives; ``states``: of one with a memory."""
        flat = ((observations.flatten(1) - self.mean) * self.inverse).clamp(-self.clip, self.clip)
        return self.policy(flat.view(observations.shape), *states)
