"""Bounds of a search: a map from all vectors to those inside, so that an algorithm never sees a border."""

from typing import Any

import numpy as np

from neuro_cli.core.checks import one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import suggesting

REFLECT, CLIP, SMOOTH = "reflect", "clip", "smooth"


@suggesting
class Bounds:
    """Bounds ``low`` and ``high``, numbers or vectors (M,); -inf and inf leave a side open.

    ``how``: reflect, a point outside is mirrored at the border; clip, the nearest point inside; smooth, a map with a derivative
    everywhere, whose slope in the middle is 1. Candidates, ``best`` and the centre are inside. Raises ConfigError.
    """

    def __init__(self, low: Any = -np.inf, high: Any = np.inf, how: str = REFLECT) -> None:
        self.low, self.high = (np.asarray(side, np.float64) for side in (low, high))
        self.how = one_of("how", how, (REFLECT, CLIP, SMOOTH))
        self.open = not (np.isfinite(self.low).any() or np.isfinite(self.high).any())
        if not (self.low < self.high).all():
            raise ConfigError("high", high, f"must be above low={low}")

    def fit(self, size: int) -> "Bounds":
        """Return bounds with vectors (M,), M = ``size``. Raises ConfigError."""
        try:
            low, high = (np.broadcast_to(side, (size,)) for side in (self.low, self.high))
        except ValueError:
            raise ConfigError("bounds", (self.low.shape, self.high.shape), f"must be numbers, or vectors of {size}") from None
        return Bounds(low, high, self.how)

    def inside(self, points: np.ndarray) -> np.ndarray:
        """Map points (.., M) of the algorithm to those inside the bounds."""
        if self.open:
            return points
        if self.how == CLIP:
            return np.clip(points, self.low, self.high)
        return self._reflected(points) if self.how == REFLECT else self._smooth(points)

    def _reflected(self, points: np.ndarray) -> np.ndarray:
        low, high = self.low, self.high
        both = np.isfinite(low) & np.isfinite(high)
        with np.errstate(invalid="ignore"):  # the kinds of coordinates that are not chosen
            width = high - low
            folded = high - np.abs((points - low) % (2 * width) - width)
            mirrored = np.where(points < low, 2 * low - points, 2 * high - points)
        touched = (points < low) | (points > high)  # a point inside keeps its bits
        return np.where(touched, np.clip(np.where(both, folded, mirrored), low, high), points)

    def _smooth(self, points: np.ndarray) -> np.ndarray:
        low, high = self.low, self.high
        with np.errstate(invalid="ignore"):
            half = (high - low) / 2
            waved = low + half + half * np.sin((points - low - half) / half)
            above, below = low + np.logaddexp(0.0, points - low), high - np.logaddexp(0.0, high - points)
        return np.clip(self._by_kind(waved, above, below, points), low, high)

    def _by_kind(self, both: np.ndarray, above: np.ndarray, below: np.ndarray, none: np.ndarray) -> np.ndarray:
        """Choose by the sides that each coordinate has."""
        low, high = np.isfinite(self.low), np.isfinite(self.high)
        return np.where(low & high, both, np.where(low, above, np.where(high, below, none)))

    def outside(self, point: np.ndarray) -> np.ndarray:
        """Return the algorithm's vector for ``point`` (M,). Raises ConfigError where it is not inside the bounds."""
        if not ((point >= self.low) & (point <= self.high)).all():
            raise ConfigError("start", np.array2string(point, threshold=6), "must be inside the bounds")
        if self.how != SMOOTH:
            return point
        low, high = self.low, self.high
        with np.errstate(all="ignore"):  # the kinds of coordinates that are not chosen
            half = (high - low) / 2
            waved = low + half + half * np.arcsin(np.clip((point - low - half) / half, -1.0, 1.0))
            above = low + np.log(np.expm1(np.maximum(point - low, 1e-300)))
            below = high - np.log(np.expm1(np.maximum(high - point, 1e-300)))
            # expm1 overflows far from the border, where the map is the identity
            above, below = (np.where(np.isfinite(x), x, point) for x in (above, below))
        return self._by_kind(waved, above, below, point)
