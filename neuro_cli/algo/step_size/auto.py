"""Step size and learning rate that a run chooses at its start: ``algo.sigma=auto``, ``algo.optimizer.lr=auto``.

A table has the gain of the algorithm's first step for some values: the mean fitness after it, less the one before it, on examples
that the step did not see. It is the mean over STEPS steps of other directions and examples, the same for all values. With pairs
that estimate the derivative as d = a + b, a the gradient's part and b the error (bias of curvature at a large sigma, noise and
rounding at a small one), a short step of one length gains in proportion to the cosine of a in d. Of a step's length r the gain
is l r - q r^2. The rules:

- sigma: the largest whose gain by a short step (by the given rate, where there is one) is at least SHARE of the best. A wide
  smoothing is a safe one, as curvature grows in the course of training;
- rate: the smallest with such a gain. On a parabola that is 0.37 of the best rate: stable where q doubles, as it may soon.

``neuro_cli.runner.gains`` measures.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

AUTO = "auto"
SHARE = 0.6  # a larger sigma, and a smaller rate, needs this share of the best gain
SIGMAS = [2.0**power for power in range(1, -5, -1)]  # factors on the sigma by size, the largest first
RATES = [2.0**power for power in range(-4, 12)]  # factors on the rate of a usual step, up to the first whose gain falls
STEPS = 4
SHORT = 0.25  # factor on the usual length of a step by which sigmas are compared


@dataclass(frozen=True)
class Gain:
    """Gain of the first step by a sigma and a rate."""

    sigma: float
    rate: float
    gain: float


@dataclass
class Gains:
    """Table of gains, with the ``sigma`` and ``rate`` that were chosen; None: not open, so as given."""

    sigma: float | None = None
    rate: float | None = None
    sigmas: list[Gain] = field(default_factory=list)
    rates: list[Gain] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return the table of gains as JSON holds it."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Gains":
        """Return the table of gains from :meth:`plain`."""
        lists = {name: [Gain(**row) for row in plain[name]] for name in ("sigmas", "rates")}
        return cls(plain["sigma"], plain["rate"], **lists)

    def __str__(self) -> str:
        """Return the table as a block of lines, with a star at what was chosen."""
        lines = ["gains of the first step on other examples (* chosen)", "       sigma        rate        gain"]
        for rows, chosen in ((self.sigmas, self.sigma), (self.rates, self.rate)):
            key = "sigma" if rows is self.sigmas else "rate"
            for row in rows:
                star = "*" if getattr(row, key) == chosen else " "
                lines.append(f"{star} {row.sigma:10.4g}  {row.rate:10.4g}  {row.gain:+10.4g}")
        return "\n".join(lines)


@dataclass
class Auto:
    """Open values of an algorithm: ``sigma`` and ``rate`` are chosen by ``gains``, None before they are measured."""

    sigma: bool
    rate: bool
    gains: Gains | None = None

    @property
    def keys(self) -> str:
        """Names of the values that are "auto" and still open, for a message."""
        return " and ".join(key for key, is_open in (("algo.sigma", self.sigma), ("algo.optimizer.lr", self.rate)) if is_open)


def auto_of(sigma: float | str | None, optimizer: Any) -> Auto | None:
    """Return the open values among ``sigma`` and the ``lr`` of an optimizer's factory, None where none is."""
    rate = isinstance(optimizer, partial) and optimizer.keywords.get("lr") == AUTO
    return Auto(sigma == AUTO, rate) if sigma == AUTO or rate else None


def first_near(gains: Sequence[float]) -> int | None:
    """Return the first place among ``gains`` with at least SHARE of the best; None where none is above 0."""
    best = max(gains, default=0.0)
    return next(place for place, gain in enumerate(gains) if gain >= SHARE * best) if best > 0 else None
