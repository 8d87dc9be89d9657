"""Rules that end a run of ask and tell, with the names and the defaults of pycma 4.5.

Legend: M parameters, P members.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.messages.did_you_mean import suggesting

SPARSE, MOST = 5, 20_000  # long histories take every fifth generation, so many of them


@suggesting
@dataclass(frozen=True)
class Stopping:
    """Rules by their limits; None: no such rule. ``target`` and ``evaluations`` end the search, the others a run.

    - ``target``: fitness to reach. ``evaluations``: candidates in all. ``generations``: of a run.
    - ``tolfun``: range of the fitnesses of a generation and of the last generations' best. ``tolfunhist``: of the latter alone.
    - ``tolx``: every standard deviation. ``tolfacupx``: growth of one. ``condition``: condition number of the covariance.
    - ``stagnation``: generations without a better median; None: 100 + 100 M^1.5 / P, 0: no such rule.
    - ``tolxstagnation``: distance that the mean moves in 20 generations plus a tenth of all.
    - ``noeffect``: a fifth of a deviation changes no digit of a parameter, or a tenth along a principal axis no digit at all.
    - ``flat``: generations in a row in which the better three quarters of the fitnesses are equal.

    Raises ConfigError.
    """

    target: float | None = None
    evaluations: int | None = None
    generations: int | None = None
    tolfun: float | None = 1e-11
    tolfunhist: float | None = 1e-12
    tolx: float | None = 1e-11
    tolfacupx: float | None = 1e3
    condition: float | None = 1e14
    stagnation: int | None = None
    tolxstagnation: float | None = 1e-9
    noeffect: bool = True
    flat: int | None = 1

    @classmethod
    def of_integers(cls) -> "Stopping":
        """Return the rules where parameters are integers, whose members often tie: as pycma advises, no limits on ranges."""
        return cls(tolfun=None, tolfunhist=None, flat=60)

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is None or name == "noeffect":
                continue
            if name in ("evaluations", "generations", "stagnation", "flat"):
                integer(name, value, 0 if name == "stagnation" else 1)
            elif name == "target":
                if not isinstance(value, int | float) or np.isnan(value):
                    raise ConfigError(name, value, "must be a number")
            else:
                number(name, value, above=0.0)


@dataclass
class Watched:
    """History of a run, by which its rules decide. Costs are fitnesses with the sign by which lower is better."""

    spread: np.ndarray  # standard deviations (M,) of the first generation
    recent: list[float] = field(default_factory=list)  # best costs, latest first
    bests: list[float] = field(default_factory=list)  # best costs of every fifth generation, latest first
    medians: list[float] = field(default_factory=list)
    generation: int = 0
    improved: int = 0  # generation of the run's best cost
    least: float = np.inf
    flat: int = 0
    last: float = np.inf  # range of the last generation
    anchor: np.ndarray | None = None  # centre (M,) when it moved last
    anchored: int = 0  # generation of that

    def meet(self, costs: np.ndarray) -> None:
        """Take the costs (P,) of a generation into the stopping criteria."""
        ordered, size = np.sort(costs), len(self.spread)
        self.generation += 1
        if ordered[0] < self.least:
            self.least, self.improved = float(ordered[0]), self.generation
        self.recent = [float(ordered[0]), *self.recent][: int(10 + 30 * size / len(costs))]
        if self.generation % SPARSE == 0:
            self.bests = [float(ordered[0]), *self.bests][:MOST]
            self.medians = [float(np.median(ordered)), *self.medians][:MOST]
        self.flat = self.flat + 1 if ordered[0] == ordered[int(0.75 * len(ordered))] else 0
        self.last = float(ordered[-1] - ordered[0])

    def meet_centre(self, centre: np.ndarray, tolerance: float) -> None:
        """Take the centre (M,) after a generation; one that stays for long is allowed more than ``tolerance``.

        Equal members move no centre, so their generation is not counted.
        """
        if self.last == 0:
            self.anchored += 1
            return
        longer = max(1.0, (self.generation - self.anchored) / self._patience())
        if self.anchor is None or np.linalg.norm(centre - self.anchor) > tolerance * longer**0.5:
            self.anchor, self.anchored = centre.copy(), self.generation

    def _patience(self) -> float:
        return 20 + self.generation / 10

    def stagnates(self, limit: int, population: int) -> bool:
        """Return whether medians of best and median costs are no lower in the last half of ``limit`` generations."""
        length = int(max(limit / SPARSE / 2, len(self.bests) / 10))
        size = len(self.spread)
        if self.generation <= size * (5 + 100 / population) or self.generation - self.improved <= limit / 2:
            return False
        if len(self.bests) <= 100 or 2 * length >= len(self.bests):
            return False
        return all(np.median(x[:length]) >= np.median(x[length : 2 * length]) for x in (self.medians, self.bests))

    def reasons(
        self,
        rules: Stopping,
        population: int,
        centre: np.ndarray,
        deviations: np.ndarray,
        condition: float,
        smooth: np.ndarray,
        stuck: bool = False,
    ) -> dict[str, float]:
        """Return the rules that end the run, with their limits; after the first generation.

        ``smooth``: mask (M,) of parameters that are no integers, whose deviations alone may vanish. ``stuck``: a tenth of a
        deviation along a principal axis changes no digit.
        """
        size, span = len(centre), max(self.recent) - min(self.recent)
        generations = rules.generations or int(100 + 150 * (size + 3) ** 2 // population**0.5)
        stagnation = int(100 + 100 * size**1.5 / population) if rules.stagnation is None else rules.stagnation
        met: dict[str, tuple[Any, bool]] = {
            "generations": (generations, self.generation >= generations),
            "tolfun": (rules.tolfun, max(self.last, span) < (rules.tolfun or 0)),
            "tolfunhist": (rules.tolfunhist, len(self.recent) > 9 and span < (rules.tolfunhist or 0)),
            "tolx": (rules.tolx, bool(smooth.any() and (deviations[smooth] < (rules.tolx or 0)).all())),
            "tolfacupx": (rules.tolfacupx, bool((deviations > self.spread * (rules.tolfacupx or 0)).any())),
            "condition": (rules.condition, condition > (rules.condition or 0)),
            "stagnation": (stagnation or None, bool(stagnation) and self.stagnates(stagnation, population)),
            "tolxstagnation": (
                None if self.anchor is None else rules.tolxstagnation,
                self.generation - self.anchored > self._patience(),
            ),
            "noeffect": (0.2 if rules.noeffect else None, stuck or bool((centre == centre + 0.2 * deviations).any())),
            "flat": (rules.flat, self.flat > (rules.flat or 0)),
        }
        return {name: float(limit) for name, (limit, is_met) in met.items() if limit is not None and is_met}

    def state(self) -> dict[str, Any]:
        """Return plain values for :meth:`restored`."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in asdict(self).items()}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> "Watched":
        """Return the history of a :meth:`state`, also of one from before there was an anchor."""
        arrays = {name: np.array(state[name]) for name in ("spread", "anchor") if state.get(name) is not None}
        return cls(**{**state, **arrays})
