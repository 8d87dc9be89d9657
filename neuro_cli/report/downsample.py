"""Curves with a bounded number of points: buckets of generations, with the least and the greatest value of each.

Legend: R runs, B buckets that hold something.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

POINTS = 40_000  # most points of all curves on a page
MOST, LEAST = 400, 40  # limits of the points of one curve

Points = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Curve:
    """Curve. ``x`` (B,): mean place of a bucket's values; ``mean``: over runs, of each run's mean in the bucket.

    ``least``, ``most``: of all values of all runs in the bucket; ``runs``: how many have some. ``width``: places in a bucket.
    """

    x: np.ndarray
    mean: np.ndarray
    least: np.ndarray
    most: np.ndarray
    runs: np.ndarray
    width: int

    @property
    def has_band(self) -> bool:
        return bool((self.least < self.most).any())

    def columns(self) -> dict[str, np.ndarray]:
        """Return the columns of a plot, in 32 bits, with a band only where it has a width."""
        columns = {"x": self.x, "y": self.mean}
        if self.has_band:
            columns |= {"least": self.least, "most": self.most, "runs": self.runs}
        return {name: values.astype(np.float32) for name, values in columns.items()}


def points_of_each(curves: int) -> int:
    """Return how many points each of ``curves`` curves may have."""
    return min(MOST, max(LEAST, POINTS // max(1, curves)))


def curve(runs: Sequence[Points], points: int) -> Curve | None:
    """Return one curve of R runs' places (whole numbers from 0) and finite values; None without a value."""
    some_runs = [(places.astype(np.int64), values) for places, values in runs if len(places)]
    if not some_runs:
        return None
    width = math.ceil((1 + max(int(places.max()) for places, _ in some_runs)) / points)
    size = 1 + max(int(places.max()) for places, _ in some_runs) // width
    places, means, counts = np.zeros(size), np.full((len(some_runs), size), np.nan), np.zeros(size)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    for mine, (where, values) in zip(means, some_runs, strict=True):
        buckets = where // width
        count = np.bincount(buckets, minlength=size)
        np.divide(np.bincount(buckets, values, size), count, out=mine, where=count > 0)
        places += np.bincount(buckets, where, size)
        counts += count
        np.minimum.at(least, buckets, values)
        np.maximum.at(most, buckets, values)
    some = counts > 0
    return Curve(
        (places[some] / counts[some]), np.nanmean(means[:, some], axis=0), least[some], most[some],
        np.isfinite(means[:, some]).sum(0), width,
    )  # fmt: skip
