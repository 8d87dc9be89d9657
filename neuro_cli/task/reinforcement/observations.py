"""Running mean and variance of observations, and the module that carries them.

Salimans et al. 2017, section 2.1 (virtual batch norm's stand-in for low-dimensional observations: normalise by statistics
of all that the population saw); Mania, Guy, Recht, "Simple random search provides a competitive approach to reinforcement
learning", 2018, algorithm 2 (V2).

Sums travel as means over a member's episodes of z and z**2, where z is an observation in the units of the statistics that
it met: additive over episodes, members and ranks, near 1 in size, and so well kept in float32. In the first generation z is the
observation itself: where that is far from 0, next to its deviation (a price, a time), the mean alone can be told from the sums.
It is taken, and deviations are counted from the next generation on, whose z are measured from that mean.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LEAST_VARIANCE = 1e-2  # of an observation's number that hardly ever moves (the code of Salimans et al.)
ROUNDING = 2.0**-23  # of a mean of z**2, as a share of it: sums travel as float32
FAR = 2.0**13  # deviations from 0 to the mean, beyond which an observation in float32 has too few digits left


class ObservationStatistics:
    """Of I numbers: ``count`` observations, their ``mean`` (I,) and the ``squares`` (I,) about it, all float64.

    ``missed`` (I,): how many of them are in no square, since their sums did not tell the deviation.
    """

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.mean, self.squares, self.missed = np.zeros(size), np.zeros(size), np.zeros(size)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations (I,) float64, 1 before anything was counted."""
        counted = self.count - self.missed
        variance = self.squares / np.where(counted > 0, counted, 1.0)
        return np.where(counted > 0, np.sqrt(np.maximum(variance, LEAST_VARIANCE)), 1.0)

    def units(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and inverse deviation (I,) float32 and base (I,) float64, for :class:`episodes.Normaliser`.

        The base is the mean where that is far from 0, next to the deviation.
        """
        deviation = self.deviation
        far = np.abs(self.mean) > FAR * deviation
        base, mean = np.where(far, self.mean, 0.0), np.where(far, 0.0, self.mean)
        return mean.astype(np.float32), (1 / deviation).astype(np.float32), base

    def add(self, count: float, sums: np.ndarray, squares: np.ndarray) -> None:
        """Take in ``count`` observations with the sums (I,) of z and of z**2 (Chan, Golub, LeVeque 1979, equation 2.1)."""
        if count <= 0:
            return
        deviation, counted = self.deviation, self.count - self.missed
        shift = deviation * sums / count
        within = deviation**2 * np.maximum(squares - sums**2 / count, 0.0)
        untold = (counted == 0) & (shift**2 * ROUNDING > np.maximum(within / count / 8, LEAST_VARIANCE))
        total = counted + count
        self.squares = self.squares + np.where(untold, 0.0, within + shift**2 * (counted * count / total))
        self.mean = self.mean + shift * (count / total)
        self.count += count
        self.missed = np.where(untold, self.count, self.missed)

    def state(self) -> dict[str, Tensor]:
        made = {"mean": self.mean, "squares": self.squares} | ({"missed": self.missed} if self.missed.any() else {})
        return {
            "count": torch.tensor([self.count], dtype=torch.float64),
            **{name: torch.from_numpy(values.copy()) for name, values in made.items()},
        }

    @staticmethod
    def of(state: dict[str, Tensor]) -> "ObservationStatistics":
        """Restore what :meth:`state` gave."""
        made = ObservationStatistics(state["mean"].numel())
        made.count = float(state["count"])
        for name in state.keys() & {"mean", "squares", "missed"}:
            setattr(made, name, state[name].cpu().double().numpy().copy())
        return made


class NormalisedPolicy(nn.Module):
    """``policy`` on observations (B, I) that it normalises itself: clamp((x - mean) * inverse, -clip, clip).

    With means far from 0 it has a buffer ``base`` (I,) float64 that is taken off before, best from observations in float64.
    """

    base: Tensor | None
    mean: Tensor
    inverse: Tensor

    def __init__(self, policy: nn.Module, statistics: ObservationStatistics, clip: float) -> None:
        super().__init__()
        mean, inverse, base = map(torch.from_numpy, statistics.units())
        device = next((parameter.device for parameter in policy.parameters()), torch.device("cpu"))
        self.policy, self.clip = policy, clip
        self.register_buffer("base", base.to(device) if base.any() else None)
        self.register_buffer("mean", mean.to(device))
        self.register_buffer("inverse", inverse.to(device))

        if callable(getattr(policy, "reset", None)):
            self.reset = policy.reset

    def forward(self, observations: Tensor, *states: Any) -> Any:
        """Return what ``policy`` gives; ``states``: those of a policy with a memory."""
        flat = observations.flatten(1)
        if self.base is not None:
            flat = (flat - self.base).to(self.mean.dtype)
        flat = ((flat - self.mean) * self.inverse).clamp(-self.clip, self.clip)
        return self.policy(flat.view(observations.shape), *states)
