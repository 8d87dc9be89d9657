"""Plots of a scaling study, shaped like DarwiNN's Figure 2: efficiency against ranks, a panel for each model on each network."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from neuro_cli.run_folder.plot import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Line, Panel, draw
from neuro_cli.scaling.results import MEASURED, ScalingRow

COLOURS = (VERMILION, BLUE, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
TITLES = {"weak": "weak efficiency t1 / tN", "strong": "strong efficiency t1 / (N tN)"}


def plot_scaling(rows: Sequence[ScalingRow], scaling: str, stem: Path) -> bool:
    """Draw ``stem``.png and .svg if there are points; colours are methods, markers members, hollow ones are projected."""
    rows = [row for row in rows if row.scaling == scaling and row.efficiency is not None]
    if not any(row.ranks > 1 for row in rows):
        return False
    models, fabrics = (list(dict.fromkeys(getattr(row, name) for row in rows)) for name in ("model", "fabric"))
    panels = [[row for row in rows if (row.model, row.fabric) == (model, fabric)] for model in models for fabric in fabrics]
    draw([_panel(some, rows) for some in panels], stem, len(fabrics), share_y=True)
    return True


def _panel(rows: Sequence[ScalingRow], study: Sequence[ScalingRow]) -> Panel:
    """Return the panel of one model on one network. ``study``: all rows, which decide colours, markers and the legend."""
    scaling = study[0].scaling
    emulated = " (emulated)" if any(row.emulated for row in rows) else ""
    projected = "" if any(row.source == MEASURED and row.ranks > 1 for row in rows) else " (projected)"
    ranks = sorted({row.ranks for row in rows})
    options = {
        "title": f"{rows[0].model}, {rows[0].fabric}{emulated}{projected}", "xlabel": "ranks", "ylabel": TITLES[scaling],
        "ylim": (0, 1.05 * max(1.0, *(row.efficiency.most for row in study if row.efficiency is not None))),
        "xscale": "log", "xticks": ranks, "xticklabels": ranks,
    }  # fmt: skip
    ideal = Line((ranks[0], ranks[-1]), (1.0, 1.0), "", GREY, width=0.8)
    return Panel([ideal, *_lines(rows, study), *_legend(study)], options, height=4.0)


def _lines(rows: Sequence[ScalingRow], study: Sequence[ScalingRow]) -> Iterator[Line]:
    """Yield a thin line through all points of a method and number of members, and a thick one through the measured points."""
    methods, scales = _kinds(study)
    for n, method in enumerate(methods):
        for m, scale in enumerate(scales):
            own = [row for row in rows if row.method == method and row.scale == scale]
            measured = [row for row in own if row.source == MEASURED]
            colour, marker = COLOURS[n % 7], MARKERS[m % 7]
            yield _line(own, colour, "--", marker, width=0.8, hollow=True)
            yield _line(measured, colour, "-", marker, width=1.5, hollow=False)


def _line(rows: Sequence[ScalingRow], colour: str, style: str, marker: str, width: float, hollow: bool) -> Line:
    points = [(row.ranks, row.efficiency) for row in rows if row.efficiency is not None]
    middle, low, high = ([getattr(spread, part) for _, spread in points] for part in ("middle", "least", "most"))
    ranks = [rank for rank, _ in points]
    return Line(ranks, middle, "", colour, style, marker, width, hollow, low=low, high=high, whiskers="y")


def _legend(study: Sequence[ScalingRow]) -> Iterator[Line]:
    """Yield lines without points, for their labels."""
    methods, scales = _kinds(study)
    yield from (Line((), (), method, COLOURS[n % 7]) for n, method in enumerate(methods))
    per = "per rank" if study[0].scaling == "weak" else "in all"
    yield from (Line((), (), f"{scale} members {per}", GREY, "", MARKERS[n % 7]) for n, scale in enumerate(scales))
    yield Line((), (), "measured: filled", GREY, "-", "o")
    if any(row.source != MEASURED for row in study):
        yield Line((), (), "projected: hollow", GREY, "--", "o", hollow=True)


def _kinds(study: Sequence[ScalingRow]) -> tuple[list[str], list[int]]:
    return list(dict.fromkeys(row.method for row in study)), list(dict.fromkeys(row.scale for row in study))
