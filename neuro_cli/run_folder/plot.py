"""All plots of the package, as PNG and SVG files: panels of lines, drawn by matplotlib, which no other module imports."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import refuse_link
from neuro_cli.core.metric import FITNESS, FRACTION, Metric
from neuro_cli.run_folder.config import class_names
from neuro_cli.run_folder.metrics import Metrics, read_metrics

log = logging.getLogger(__name__)

# M. Okabe, K. Ito, "Color Universal Design", 2008
VERMILION, BLUE, GREEN, ORANGE = "#D55E00", "#0072B2", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#999999"
CYCLE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)  # colours of lines, in their order
MARKED = 60  # most points of a line whose points are marked
LEGEND = 4  # most entries of a legend next to each other


Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Line:
    """Line through N points; marks alone where ``style`` is empty.

    ``low``, ``high``: (N,) range of each point, a band, or whiskers along the axis ``whiskers`` (x | y). ``shades``: (N,) numbers
    that colour the marks. ``steps``: each value holds until the next point. ``right``: on an axis of its own at the right.
    """

    x: Numbers
    y: Numbers
    label: str = ""
    colour: str = BLACK
    style: Any = "-"
    marker: str = ""
    width: float = 1.5
    hollow: bool = False
    steps: bool = False
    right: bool = False
    low: Numbers = ()
    high: Numbers = ()
    whiskers: str = ""
    shades: Numbers = ()


@dataclass(frozen=True)
class Panel:
    """Axes with their lines. ``options``: of ``Axes.set``, labels, limits and scales; ``right``: of the axis at the right.

    ``notes``: (x, y, text); without an x the text stands at the left.
    """

    lines: Sequence[Line]
    options: Mapping[str, Any]
    right: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[tuple[float | None, float, str]] = ()
    height: float = 4.8  # inches


# a matplotlibrc in the current folder may ask for LaTeX, which reads and runs what the file says
@matplotlib.rc_context(matplotlib.rcParamsDefault)
def draw(panels: Sequence[Panel], path: Path, columns: int = 1, title: str = "", share_y: bool = False) -> None:
    """Draw ``panels`` in so many ``columns`` into the file ``path``, or into ``path``.svg and ``path``.png without a suffix.

    Raises UserError when a file cannot be written.
    """
    figure = figure_of(panels, columns, title, share_y)
    for file in [path] if path.suffix else [path.with_suffix(".svg"), path.with_suffix(".png")]:
        _save(figure, file)


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def png_of(panel: Panel, width: float) -> bytes:
    """Return the content of a PNG file with ``panel``, so many inches wide."""
    content = BytesIO()
    figure_of([panel], width=width).savefig(content, format="png")
    return content.getvalue()


@matplotlib.rc_context(matplotlib.rcParamsDefault)
def figure_of(
    panels: Sequence[Panel], columns: int = 1, title: str = "", share_y: bool = False, width: float | None = None
) -> Figure:
    """Return a figure of ``panels`` in so many ``columns``. The legend has each label once."""
    heights = [panel.height for panel in panels[::columns]]
    width = width or (8.0 if columns == 1 else 1.0 + 4.2 * columns)
    figure = Figure(figsize=(width, sum(heights)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    if title:
        figure.suptitle(title, fontsize="medium", parse_math=False)
    places = list(figure.subplots(len(heights), columns, squeeze=False, sharey=share_y, height_ratios=heights).flat)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    for axes, panel in zip(places, panels, strict=False):
        _panel(figure, axes, panel)
    entries = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if entries:
        columns = min(len(entries), LEGEND, max(1, int(11 * width / (8 + max(map(len, entries))))))  # room for the longest label
        options: dict[str, Any] = {"ncols": columns, "frameon": False, "fontsize": "small"}
        figure.legend(entries.values(), entries.keys(), loc="outside lower center", **options)
    _settle(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Fix the layout, rounded: its solver's last digits depend on memory addresses, and the names in an SVG on those digits."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(value, 5) for value in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def _panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    axes.set(**panel.options)
    axes.grid(alpha=0.3)
    if panel.notes:
        axes.margins(x=0.12)
    if axes.get_yscale() == "log":
        _plain(axes, [y for line in panel.lines if not line.right for y in (*line.y, *line.low, *line.high)])
    if "xticks" in panel.options:
        axes.minorticks_off()
    elif axes.get_xscale() == "linear" and all(float(x).is_integer() for line in panel.lines for x in line.x):
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
    right = axes.twinx() if any(line.right for line in panel.lines) else axes
    if right is not axes:
        right.set(**panel.right)
    for line in panel.lines:
        _line(figure, right if line.right else axes, line)
    for x, y, text in panel.notes:
        place, across = ((x, y), "data") if x is not None else ((0, y), axes.get_yaxis_transform())
        axes.annotate(text, place, (4, 4), xycoords=across, textcoords="offset points", fontsize=7)


def _plain(axes: Axes, values: Numbers) -> None:
    """Label an axis of logarithms with plain numbers where the positive ``values`` lie within three decades."""
    positive = [float(value) for value in values if 0 < value < np.inf]
    decades = np.log10(max(positive) / min(positive)) if positive else np.inf
    if decades < 3:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 1.5 else (1,)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _line(figure: Figure, axes: Axes, line: Line) -> None:
    if len(line.shades):
        marks = axes.scatter(line.x, line.y, c=line.shades, cmap="viridis", s=24)
        figure.colorbar(marks, ax=axes, label=line.label, ticks=MaxNLocator(integer=True))
        return
    fill, steps = "none" if line.hollow else "full", "steps-post" if line.steps else "default"
    axes.plot(
        line.x, line.y, linestyle=line.style or "none", marker=line.marker, color=line.colour, linewidth=line.width, markersize=5,
        fillstyle=fill, drawstyle=steps, label=line.label or None,
    )  # fmt: skip
    if len(line.low) and line.whiskers == "x":
        axes.hlines(line.y, line.low, line.high, color=line.colour, linewidth=1)
    elif len(line.low) and line.whiskers == "y":
        axes.vlines(line.x, line.low, line.high, color=line.colour, linewidth=1)
    elif len(line.low):
        axes.fill_between(
            line.x, line.low, line.high, color=line.colour, alpha=0.15, linewidth=0, step="post" if line.steps else None
        )


def _save(figure: Figure, file: Path) -> None:
    """Write a file; an SVG has letters as text, and ids that depend on the content alone: it differs where numbers do."""
    options: dict[str, Any] = {"metadata": {"Date": None, "Creator": None}} if file.suffix == ".svg" else {}
    refuse_link(file)
    try:
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": file.stem}):
            figure.savefig(file, **options)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error


def title_of(config: Mapping[str, Any]) -> str:
    """Title of the plot of a run: its network, task, algorithm and seed."""
    names = class_names(config)
    return f"{names.get('model')} on {names.get('task')}, {names.get('algo')}, seed {config.get('seed')}"


def plot_run(metrics_csv: Path, png: Path, headline: Metric, title: str = "") -> None:
    """Draw the curves of a run; without a row in ``metrics_csv`` log that there is nothing to draw.

    Raises UserError when the file cannot be written.
    """
    metrics = read_metrics(metrics_csv)
    if not len(metrics):
        log.warning("%s has no rows: nothing to plot", metrics_csv)
        return
    draw([panel_of_run(metrics, headline)], png, title=title)


def panel_of_run(metrics: Metrics, headline: Metric) -> Panel:
    """Return the panel of a run: fitness, and the headline of its evaluations."""
    tested = metrics.points(headline.name)
    labels = {"fitness_best": ("best fitness", ORANGE), "fitness_mean": ("mean fitness", BLUE)}
    lines = [_marked(*metrics.points(name), label=label, colour=colour) for name, (label, colour) in labels.items()]
    if len(tested[0]):
        label = f"{headline.label} (last {headline.text(tested[1][-1])})"
        lines.append(_marked(*tested, label=label, colour=GREEN, style="--", right=headline.unit != FITNESS))
    right = {"ylabel": headline.heading} | ({"ylim": (0, 1)} if headline.unit == FRACTION else {})
    shown = [line for line in lines if len(line.x)]
    return Panel(shown, {"xlabel": "generation", "ylabel": "fitness"}, right)


def _marked(x: Any, y: Any, **options: Any) -> Line:
    return Line(x, y, marker="." if len(x) <= MARKED else "", **options)
