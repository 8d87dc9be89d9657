"""Running mean and variance of observations, and the module that carries them.

Salimans et al. 2017, section 2.1 (virtual batch norm's stand-in for low-dimensional observations: normalise by statistics
of all that the population saw); Mania, Guy, Recht, "Simple random search provides a competitive approach to reinforcement
learning", 2018, algorithm 2 (V2).

Sums travel as means over a member's episodes of z and z**2, where z is an observation in units of the member's statistics.
They add up over episodes, members and ranks, and are near 1 in size, so float32 stores them well. In the first generation z is
the observation itself. If that is far from 0 relative to its deviation (a price, a time), the sums determine only the mean.
The mean is then stored, and deviations are counted from the next generation on, with z relative to that mean.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LEAST_DEVIATION = 0.1  # least deviation, where numbers of an observation hardly ever move (code of Salimans et al.)
ROUNDING = 2.0**-23  # relative error of a mean of z**2: sums travel as float32
FAR = 2.0**13  # deviations from 0 to the mean, beyond which an observation in float32 has too few digits left


@dataclass(frozen=True)
class Normaliser:
    """Normalisation of an observation x: ((x - base) - mean) * inverse, clipped to +-``clip``.

    ``mean`` and ``inverse`` (I,) are float32; ``base`` (I,) float64, None for zeros, is subtracted before x becomes float32.
    """

    mean: np.ndarray
    inverse: np.ndarray
    clip: float
    base: np.ndarray | None = None

    @property
    def arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.float32]:
        """Base, mean, inverse and clip, as :func:`policy_kernels.meet` takes them."""
        base = np.zeros(len(self.mean)) if self.base is None else self.base
        return base, self.mean, self.inverse, np.float32(self.clip)


class ObservationStatistics:
    """Statistics of I numbers: ``count`` observations, ``mean`` (I,), ``squares`` (I,) about the mean, all float64.

    ``missed`` (I,): observations without a share in ``squares``, because their sums did not determine the deviation.
    ``least`` > 0: floor for deviations.
    """

    def __init__(self, size: int, least: float = LEAST_DEVIATION) -> None:
        self.least = least
        self.count = 0.0
        self.mean, self.squares, self.missed = np.zeros(size), np.zeros(size), np.zeros(size)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations of observations (I,) float64, 1 before any count."""
        counted = self.count - self.missed
        variance = self.squares / np.where(counted > 0, counted, 1.0)
        return np.where(counted > 0, np.maximum(np.sqrt(variance), self.least), 1.0)

    def units(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return mean and inverse deviation (I,) float32 and base (I,) float64, for :class:`Normaliser`.

        The base is the mean if that is far from 0 relative to the deviation.
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
        unknown = (counted == 0) & (shift**2 * ROUNDING > np.maximum(within / count / 8, self.least**2))
        total = counted + count
        self.squares = self.squares + np.where(unknown, 0.0, within + shift**2 * (counted * count / total))
        self.mean = self.mean + shift * (count / total)
        self.count += count
        self.missed = np.where(unknown, self.count, self.missed)

    def state(self) -> dict[str, Tensor]:
        arrays = {"mean": self.mean, "squares": self.squares} | ({"missed": self.missed} if self.missed.any() else {})
        return {
            "count": torch.tensor([self.count], dtype=torch.float64),
            **{name: torch.from_numpy(values.copy()) for name, values in arrays.items()},
        }

    @staticmethod
    def of(state: dict[str, Tensor], least: float = LEAST_DEVIATION) -> "ObservationStatistics":
        """Restore the statistics that :meth:`state` gave."""
        statistics = ObservationStatistics(state["mean"].numel(), least)
        statistics.count = float(state["count"])
        for name in state.keys() & {"mean", "squares", "missed"}:
            setattr(statistics, name, state[name].cpu().double().numpy().copy())
        return statistics


class NormalisedPolicy(nn.Module):
    """Module that normalises observations (B, I) for ``policy``: clamp((x - mean) * inverse, -clip, clip).

    For means far from 0 a buffer ``base`` (I,) float64 is subtracted first, best from observations in float64.
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
