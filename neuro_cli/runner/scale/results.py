"""From seconds to efficiencies: the rows of ``scaling.csv``, measured and projected."""

import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from neuro_cli.fabric.cost import CostModel
from neuro_cli.fabric.measure import fitted
from neuro_cli.runner.scale.plan import Point, Study
from neuro_cli.runner.scale.worlds import NATIVE, Measurements

WEAK, STRONG = "weak", "strong"
MEASURED, PROJECTED, EXTRAPOLATED = "measured", "projected", "projected (extrapolated)"


@dataclass(frozen=True)
class Row:
    """A line of the study. ``scale``: members a rank (weak) or in all (strong).

    Efficiencies: weak t1 / tN, strong t1 / (N tN) (DarwiNN, Petrica et al. 2020); None where ranks shared cores, unless
    asked for. Bytes are of one generation, of the rank with most. ``error``: the projection's, relative to the measurement.
    """

    scaling: str
    fabric: str
    emulated: bool
    method: str
    scale: int
    ranks: int
    population: int
    source: str
    crowded: bool
    seconds: float
    seconds_least: float
    seconds_most: float
    efficiency: float | None
    efficiency_least: float | None
    efficiency_most: float | None
    bytes_sent: float | None = None
    bytes_received: float | None = None
    interface_sent: float | None = None
    interface_received: float | None = None
    seconds_projected: float | None = None
    error: float | None = None

    def fields(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Projection:
    """Seconds of a generation from what one rank does and what the network costs."""

    cost: CostModel
    pretended: dict[Point, dict[str, Any]]

    def seconds(self, point: Point) -> float:
        """Work outside of collectives, and of each collective what other work did not hide."""
        result = self.pretended[point]
        exposed = [max(0.0, self.cost.seconds((kind, size), point.ranks) - hidden) for kind, size, hidden in result["calls"]]
        return float(result["seconds"][0] + sum(exposed))

    def source(self, point: Point) -> str:
        return EXTRAPOLATED if self.pretended[point]["extrapolated"] else PROJECTED


def projections(study: Study, found: Measurements) -> dict[str, Projection]:
    """By network: with its own cost model, or one fitted to the collectives measured on it; none where neither is there."""
    made = {}
    for name, network in study.networks.items():
        cost = network.cost or (fitted(found.collectives[name]) if found.collectives[name] else None)
        if cost is not None:
            made[name] = Projection(cost, found.pretended)
    return made


def rows_of(study: Study, found: Measurements) -> list[Row]:
    """All rows: weak before strong, networks and methods in the order asked for, growing scale and ranks."""
    project = projections(study, found)
    rows = []
    for scaling, scales in ((WEAK, study.weak), (STRONG, study.strong)):
        for name in study.networks:
            for method in study.methods:
                for scale in scales:
                    rows += list(_line(study, found, project.get(name), scaling, name, method, scale))
    return rows


def _line(
    study: Study, found: Measurements, projection: Projection | None, scaling: str, name: str, method: str, scale: int
) -> Iterator[Row]:
    def point(ranks: int) -> Point:
        return Point(method, ranks, scale * ranks if scaling == WEAK else scale)

    single = _medians(found, NATIVE, point(1))
    for ranks in sorted({1, *study.ranks, *study.projected}):
        at = point(ranks)
        if at.population < ranks:
            continue
        fixed = (scaling, name, study.networks[name].emulate, method, scale, ranks, at.population)
        where = NATIVE if ranks == 1 else name
        projected = projection.seconds(at) if projection is not None and at in projection.pretended else None
        if (where, at) in found.points:
            yield _measured(study, found, fixed, single, _medians(found, where, at), found.points[where, at], projected)
        elif projected is not None and projection is not None:
            efficiency = statistics.median(single) / projected / (1 if scaling == WEAK else ranks)
            spread = (projected, projected, projected, efficiency, efficiency, efficiency)
            yield Row(*fixed, projection.source(at), False, *spread)


def _measured(
    study: Study,
    found: Measurements,
    fixed: tuple[str, str, bool, str, int, int, int],
    single: list[float],
    medians: list[float],
    results: list[dict[str, Any]],
    projected: float | None,
) -> Row:
    scaling, ranks = fixed[0], fixed[5]
    seconds = [value for result in results for value in result["seconds"]]
    ratios = [a / b / (1 if scaling == WEAK else ranks) for a, b in zip(single, medians, strict=True)]
    crowded = study.crowded(ranks)
    shown: tuple[float | None, ...] = (statistics.median(ratios), min(ratios), max(ratios))
    if crowded and not study.oversubscribed:
        shown = (None, None, None)
    middle = statistics.median(medians)
    counted = results[-1]["bytes"]
    wire = counted if counted["interface_sent"] else {"interface_sent": None, "interface_received": None}
    return Row(
        *fixed,
        MEASURED,
        crowded,
        middle,
        min(seconds),
        max(seconds),
        *shown,
        counted["bytes_sent"],
        counted["bytes_received"],
        wire["interface_sent"],
        wire["interface_received"],
        projected,
        None if projected is None else projected / middle - 1.0,
    )


def _medians(found: Measurements, name: str, point: Point) -> list[float]:
    """The median generation of every round."""
    return [statistics.median(result["seconds"]) for result in found.points[name, point]]
