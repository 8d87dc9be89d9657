"""Figure of an entry as PNG and SVG: measured bars beside published marks, one panel per quantity."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from neuro_cli.reproduce.results import RowResult, hardware, shown
from neuro_cli.reproduce.verdict import FAILED, NOT_MEASURABLE, NOT_REPRODUCED, REFERENCE, REPRODUCED
from neuro_cli.run_folder.palette import BLACK, BLUE, GREEN, GREY, VERMILION

COLOURS = {REPRODUCED: GREEN, NOT_REPRODUCED: VERMILION, REFERENCE: BLUE, NOT_MEASURABLE: GREY, FAILED: BLACK}
WIDE = 30.0  # largest over smallest, beyond which the axis is logarithmic


def plot(title: str, results: Sequence[RowResult], stem: Path) -> None:
    """Write ``stem``.png and ``stem``.svg, with the machine below the title."""
    panels = list(dict.fromkeys(result.quantity for result in results))
    parts = [[result for result in results if result.quantity == panel] for panel in panels]
    height = 1.3 + sum(0.75 + 0.34 * len(part) for part in parts)
    figure = Figure(figsize=(8, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("\n".join(filter(None, (title, hardware(results)))), fontsize=10)
    axes = figure.subplots(len(parts), 1, squeeze=False, height_ratios=[0.75 + 0.34 * len(part) for part in parts])[:, 0]
    for place, panel, part in zip(axes, panels, parts, strict=True):
        _draw(place, panel, part)
    _legend(figure, results)
    # letters as text, and ids that depend on the content alone: small files that differ only where figures do
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": stem.name}):
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
    figure.savefig(stem.with_suffix(".png"))


def _draw(axes: Axes, quantity: str, results: Sequence[RowResult]) -> None:
    finite = [value for r in results for value in (r.published, r.measured) if value is not None and math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    logarithmic = bool(positive) and len(positive) == len(finite) and max(positive) > WIDE * min(positive)
    if logarithmic:
        axes.set_xscale("log")
    left = min(positive) / 3 if logarithmic else 0.0
    for place, result in enumerate(results):
        _row(axes, place, result, left)
    axes.set_yticks(range(len(results)), [result.row for result in results], fontsize=8)
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.tick_params(axis="x", labelsize=8)
    axes.set_xlabel(quantity, fontsize=9)
    axes.margins(x=0.12)
    if logarithmic:
        axes.set_xlim(left=left)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _row(axes: Axes, place: int, result: RowResult, left: float) -> None:
    value, colour = result.measured, COLOURS[result.verdict]
    if value is not None and math.isfinite(value):
        axes.barh(place, value - left, left=left, height=0.55, color=colour)
        if result.least != result.most and result.least is not None and result.most is not None and math.isfinite(result.most):
            axes.plot([result.least, result.most], [place, place], color="black", linewidth=0.9)
        axes.annotate(shown(value), (value, place), (3, 5), textcoords="offset points", fontsize=7)
    else:
        words = shown(value) or result.verdict
        axes.annotate(words, (0, place), (4, -3), xycoords=axes.get_yaxis_transform(), textcoords="offset points", fontsize=7)
    if result.published is not None:
        axes.plot([result.published], [place], "D", color="white", markeredgecolor="black", markersize=6, zorder=3)


def _legend(figure: Figure, results: Sequence[RowResult]) -> None:
    axes = figure.axes[0]
    words = [verdict for verdict in COLOURS if any(result.verdict == verdict for result in results)]
    handles = [axes.barh([0], [0], color=COLOURS[word], label=f"measured: {word}", height=0.0) for word in words]
    marks = [axes.plot([], [], "D", color="white", markeredgecolor="black", label="published")[0]]
    entries = [*handles, *(marks if any(result.published is not None for result in results) else [])]
    figure.legend(handles=entries, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
