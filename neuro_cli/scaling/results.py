"""Rows of ``scaling.csv``: efficiencies from seconds, measured and projected."""

import itertools
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from neuro_cli.fabric.cost import CostModel, stalled
from neuro_cli.fabric.measure import fitted
from neuro_cli.scaling.plan import Point, Study
from neuro_cli.scaling.worker import BYTES
from neuro_cli.scaling.worlds import NATIVE, Measurements

WEAK, STRONG = "weak", "strong"
MEASURED, PROJECTED, EXTRAPOLATED = "measured", "projected", "projected (extrapolated)"


@dataclass(frozen=True)
class Spread:
    """Spread of a scaling study's seconds: median, minimum and maximum; all the same for a projection."""

    middle: float
    least: float
    most: float


@dataclass(frozen=True)
class ScalingRow:
    """Row of the study. ``scale``: members per rank (weak) or in all (strong).

    ``efficiency``: weak t1 / tN, strong t1 / (N tN) (DarwiNN, section 5); None where ranks shared cores, unless
    asked for. ``bytes``: of one generation, of the rank with most; empty where not counted. ``projected``: seconds.
    """

    scaling: str
    model: str
    fabric: str
    emulated: bool
    method: str
    scale: int
    ranks: int
    population: int
    crowded: bool
    source: str
    seconds: Spread
    efficiency: Spread | None
    bytes: Mapping[str, float]
    projected: float | None = None

    @property
    def error(self) -> float | None:
        """Error of the projected scaling, relative to the measurement."""
        return None if self.source != MEASURED or self.projected is None else self.projected / self.seconds.middle - 1.0

    def fields(self) -> dict[str, Any]:
        """Return the cells of one CSV line of scaling."""
        plain = {key: value for key, value in asdict(self).items() if key not in ("seconds", "efficiency", "bytes")}
        for key, spread in (("seconds", self.seconds), ("efficiency", self.efficiency)):
            for part in ("middle", "least", "most"):
                plain[f"{key}_{part}"] = getattr(spread, part, None)
        return plain | {key: self.bytes.get(key) for key in BYTES} | {"projection_error": self.error}


@dataclass(frozen=True)
class Projection:
    """Projection of a generation's seconds from the work of one rank and the cost model of the network."""

    cost: CostModel
    pretended: Mapping[Point, list[dict[str, Any]]]

    def seconds(self, point: Point) -> float:
        """Return the projected seconds of work outside of collectives, plus those of collectives that the work does not hide."""
        seconds = []
        for result in self.pretended[point]:
            calls = [((kind, size), began, needed) for kind, size, began, needed in result["calls"]]
            seconds.append(result["seconds"][0] + stalled(calls, self.cost, point.ranks))
        return statistics.median(seconds)

    def source(self, point: Point) -> str:
        return EXTRAPOLATED if self.pretended[point][0]["extrapolated"] else PROJECTED


def projections(study: Study, measurements: Measurements) -> dict[str, Projection]:
    """Return projections by network, with its own cost model or one fitted to its measured collectives; none without either."""
    by_network = {}
    for name, network in study.networks.items():
        cost = network.cost or (fitted(measurements.collectives[name]) if measurements.collectives[name] else None)
        if cost is not None:
            by_network[name] = Projection(cost, measurements.pretended)
    return by_network


def rows_of(study: Study, measurements: Measurements) -> list[ScalingRow]:
    """Return the study's rows: weak before strong, models, networks, methods in the order asked for, growing scale and ranks."""
    project = projections(study, measurements)
    rows = []
    for scaling, scales in ((WEAK, study.populations), (STRONG, study.strong)):
        for model, name, method, scale in itertools.product(study.models, study.networks, study.methods, scales):
            rows += list(_line(study, measurements, project.get(name), scaling, name, Point(method, 1, scale, model)))
    return rows


def _line(
    study: Study, measurements: Measurements, projection: Projection | None, scaling: str, name: str, one: Point
) -> Iterator[ScalingRow]:
    """Yield the rows of a line of the figure; ``one``: its point on one rank."""
    scale = one.population
    for ranks in sorted({1, *study.ranks, *study.projected_ranks}):
        at = replace(one, ranks=ranks, population=scale * ranks if scaling == WEAK else scale)
        if at.population < ranks:
            continue
        ideal = 1 if scaling == WEAK else ranks  # tN of perfect scaling is t1 / ideal
        row = ScalingRow(
            scaling, one.model, name, study.networks[name].emulate, one.method, scale, ranks, at.population,
            study.crowded(ranks), MEASURED,
            Spread(0.0, 0.0, 0.0), None, {},
        )  # fmt: skip
        projected = projection.seconds(at) if projection is not None and at in projection.pretended else None
        where = NATIVE if ranks == 1 else name
        if (where, at) in measurements.points:
            yield measured(
                row, measurements.points[NATIVE, one], measurements.points[where, at], ideal, projected, study.oversubscribed
            )
        elif projection is not None and projected is not None:
            single = statistics.median(medians(measurements.points[NATIVE, one]))
            efficiency = single / projected / ideal
            yield replace(
                row,
                crowded=False,  # a cluster has cores for all of them
                source=projection.source(at),
                seconds=Spread(projected, projected, projected),
                efficiency=Spread(efficiency, efficiency, efficiency),
                projected=projected,
            )


def measured(
    row: ScalingRow, single: list[Any], results: list[Any], ideal: int, projected: float | None, oversubscribed: bool
) -> ScalingRow:
    """Return the row with its measurements: seconds of all generations, efficiencies of the pairs of a round."""
    every = [value for result in results for value in result["seconds"]]
    of_rounds = medians(results)
    ratios = [a / b / ideal for a, b in zip(medians(single), of_rounds, strict=True)]
    return replace(
        row,
        seconds=Spread(statistics.median(of_rounds), min(every), max(every)),
        efficiency=Spread(statistics.median(ratios), min(ratios), max(ratios)) if oversubscribed or not row.crowded else None,
        bytes={key: count for key, count in results[-1]["bytes"].items() if count or not key.startswith("interface")},
        projected=projected,
    )


def medians(results: list[Any]) -> list[float]:
    """Return the median generation of every round of a scaling study."""
    return [statistics.median(result["seconds"]) for result in results]
