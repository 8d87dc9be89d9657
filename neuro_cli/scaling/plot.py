"""Plots of a scaling study, shaped like DarwiNN's Figure 2: efficiency against ranks, a panel for each model on each network."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from neuro_cli.run_folder.palette import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
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
    methods, scales = list(dict.fromkeys(row.method for row in rows)), list(dict.fromkeys(row.scale for row in rows))
    size = (1.5 + 4.5 * len(fabrics), 1.2 + 3.4 * len(models))
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(models), len(fabrics), sharey=True, squeeze=False)
    for model, line_of_panels in zip(models, panels, strict=True):
        for axes, fabric in zip(line_of_panels, fabrics, strict=True):
            here = [row for row in rows if (row.model, row.fabric) == (model, fabric)]
            _panel(axes, here, methods, scales)
        line_of_panels[0].set_ylabel(TITLES[scaling])
    panels[0, 0].set_ylim(bottom=0)  # shared by all panels; the top is where the highest point is
    _legend(figure, methods, scales, "per rank" if scaling == "weak" else "in all", any(row.source != MEASURED for row in rows))
    # letters as text, and ids that depend on the content alone: small files that differ only where figures do
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": stem.name}):
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(stem.with_suffix(".png"))
    return True


def _panel(axes: Axes, rows: Sequence[ScalingRow], methods: Sequence[str], scales: Sequence[int]) -> None:
    """One model on one network."""
    emulated = " (emulated)" if any(row.emulated for row in rows) else ""
    projected = "" if any(row.source == MEASURED and row.ranks > 1 for row in rows) else " (projected)"
    _frame(axes, f"{rows[0].model}, {rows[0].fabric}{emulated}{projected}", sorted({row.ranks for row in rows}))
    for method in methods:
        for scale in scales:
            line = [row for row in rows if row.method == method and row.scale == scale]
            _draw(axes, line, COLOURS[methods.index(method) % 7], MARKERS[scales.index(scale) % 7])


def _frame(axes: Axes, title: str, ranks: list[int]) -> None:
    axes.set(title=title, xlabel="ranks")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.minorticks_off()
    axes.tick_params(axis="x", rotation=45 if len(ranks) > 6 else 0)
    axes.grid(alpha=0.3)


def _draw(axes: Axes, line: Sequence[ScalingRow], colour: str, marker: str) -> None:
    points = [(row, row.efficiency) for row in line if row.efficiency is not None]
    axes.plot([row.ranks for row, _ in points], [e.middle for _, e in points], "--", color=colour, linewidth=0.8)
    solid = [(row.ranks, e) for row, e in points if row.source == MEASURED]
    axes.plot([ranks for ranks, _ in solid], [e.middle for _, e in solid], "-", color=colour, linewidth=1.5)
    for row, e in points:
        fill = "full" if row.source == MEASURED else "none"
        axes.plot([row.ranks], [e.middle], marker, color=colour, markersize=6, fillstyle=fill)
        axes.plot([row.ranks] * 2, [e.least, e.most], "-", color=colour, linewidth=1)


def _legend(figure: Figure, methods: Sequence[str], scales: Sequence[int], per: str, projected: bool) -> None:
    axes = figure.axes[0]
    handles = [axes.plot([], [], "-", color=COLOURS[n % 7], label=method)[0] for n, method in enumerate(methods)]
    handles += [
        axes.plot([], [], MARKERS[n % 7], color="grey", linestyle="none", label=f"{scale} members {per}")[0]
        for n, scale in enumerate(scales)
    ]
    handles.append(axes.plot([], [], "-o", color="grey", label="measured: filled")[0])
    if projected:
        handles.append(axes.plot([], [], "--o", color="grey", fillstyle="none", label="projected: hollow")[0])
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 4), frameon=False)
