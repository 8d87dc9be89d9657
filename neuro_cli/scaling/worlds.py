"""Starts the worlds of a scaling study and collects their measurements."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuro_cli.bench.world import measured_in_world
from neuro_cli.fabric.measure import Timed
from neuro_cli.scaling.plan import Point, Study

NATIVE = "native"
SIZES = (256, 16 * 1024, 1024 * 1024, 8 * 1024 * 1024)  # bytes of the collectives that are timed


@dataclass
class Measurements:
    """Results of every round by network and point. ``collectives``: by network, of every world with more than one rank.

    ``pretended``: by point, the seconds of one of its ranks outside of collectives, and the collectives; of every round
    where the point is measured too. ``libraries``: by network, what moves the messages of its ranks.
    """

    points: dict[tuple[str, Point], list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    collectives: dict[str, list[Timed]] = field(default_factory=lambda: defaultdict(list))
    pretended: dict[Point, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    libraries: dict[str, str] = field(default_factory=dict)


def measure(study: Study, folder: Path) -> Measurements:
    """Run every world of the study, ``rounds`` times in turn, so that a drift of the machine affects all alike.

    ``folder`` keeps the plan and the results of each world. Raises RuntimeError when a world fails.
    """
    measurements = Measurements()
    for number in range(study.rounds):
        if study.rounds > 1:
            print(f"round {number + 1} of {study.rounds}", flush=True)
        here = folder / f"round_{number + 1}"
        _measure_world(study, measurements, NATIVE, 1, here)
        for name in study.networks:
            for ranks in study.ranks:
                if ranks > 1 and not study.project and name not in study.unmeasured:
                    _measure_world(study, measurements, name, ranks, here)
        _pretend(study, measurements, set(study.ranks) - {1}, here)
    _pretend(study, measurements, set(study.projected_ranks) - {1, *study.ranks}, folder)
    return measurements


def _measure_world(study: Study, measurements: Measurements, name: str, ranks: int, folder: Path) -> None:
    emulate = name in study.networks and study.networks[name].emulate
    print(f"{name}{' emulated' * emulate}, {ranks} rank{'s' * (ranks > 1)}", flush=True)
    points = study.points(ranks)
    inside = name if name in study.networks else None
    entries = [
        {"config": study.point_config(point, inside), "title": f"{point.model}, {point.method}, population {point.population}"}
        for point in points
    ]
    node = study.config["known_fabrics"][name] | {"emulate": emulate}
    results = _run(study, entries, ranks, node, folder / f"{name}_{ranks}")
    for point, result in zip(points, results["points"], strict=True):
        measurements.points[name, point].append(result)
    measurements.collectives[name] += [(tuple(call), size, seconds) for call, size, seconds in results["collectives"]]
    if ranks > 1:
        measurements.libraries[name] = results["library"]


def _pretend(study: Study, measurements: Measurements, worlds: set[int], folder: Path) -> None:
    """Time one rank of each of the larger worlds, with all cores of the machine as busy as on a node of a cluster."""
    sizes = sorted(worlds)
    families = {
        Point(method, ranks, members * ranks, model): f"{model} {method} {members}"
        for model in study.models
        for method in study.methods
        for members in study.populations
        for ranks in sizes
    }
    points = sorted(
        {point for ranks in sizes for point in study.points(ranks)}, key=lambda p: (p.model, p.method, p.ranks, p.population)
    )
    if not points:
        return
    busy = max(1, study.cores // study.threads)
    print(f"one rank of larger worlds, {busy} at once", flush=True)
    entries = [
        {
            "config": study.point_config(point, None),
            "title": f"{point.model}, {point.method}, rank of {point.ranks}, population {point.population}",
            "pretend": point.ranks,
            "family": families.get(point, f"{point.model} {point.method} of {point.population}, {point.ranks}"),
        }
        for point in points
    ]
    results = _run(study, entries, busy, study.config["known_fabrics"][NATIVE], folder / "pretended")
    for point, result in zip(points, results["points"], strict=True):
        measurements.pretended[point].append(result)


def _run(study: Study, entries: list[dict[str, Any]], ranks: int, fabric: dict[str, Any], folder: Path) -> dict[str, Any]:
    plan = {"fabric": fabric, "points": entries, "warmup": study.warmup, "repeats": study.repeats, "sizes": SIZES}
    return measured_in_world("neuro_cli.scaling.worker", plan, ranks, folder)
