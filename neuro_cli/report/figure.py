"""A figure of the page: Bokeh draws it in the browser, this module says what all figures have in common.

Every renderer has the tags (legend, item, smooth): the page's script shows, hides, colours and smooths by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, GlyphRenderer, HoverTool, Line, Range1d, Scatter, Segment, VArea
from bokeh.plotting import figure

from neuro_cli.report.downsample import Curve
from neuro_cli.run_folder.palette import colour, dash

HEIGHT = 250
MARKED = 40  # with no more points than this, each is marked
MANY = 24  # with more lines than this, a figure has neither bands nor marks
FEW = 4  # so many lines are told at once when the pointer is at their height
NUMBER = "printf"


@dataclass(frozen=True)
class Item:
    """An entry of a legend, which may be switched off: its name and its place in the palette."""

    label: str
    place: int


@dataclass
class Legend:
    """What the colours of some figures mean. ``switches``: whether the reader may hide items."""

    name: str
    heading: str
    items: list[Item]
    switches: bool = True


@dataclass
class Picture:
    """A figure with its heading, a sentence under it, and what it shows in words for those who do not see it."""

    title: str
    plot: Any
    told: str
    note: str = ""


def new_plot(x: str, **options: Any) -> Any:
    """An empty figure: as wide as its place, silent under a finger that scrolls the page."""
    plot = figure(
        height=HEIGHT, sizing_mode="stretch_width", tools="pan,box_zoom,wheel_zoom,reset,save", toolbar_location="above",
        active_drag=None, active_scroll=None, x_axis_label=x, min_border_right=12, min_border_top=8,
        background_fill_color=None, border_fill_color=None, **options,
    )  # fmt: skip
    plot.toolbar_inner = True
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    for side in (plot.x_range, plot.y_range):
        if hasattr(side, "only_visible"):
            side.only_visible = True
    return plot


def draw(plot: Any, legend: str, item: Item, data: Curve, step: bool = False, bare: bool = False) -> GlyphRenderer:
    """A curve with its band; both can be smoothed in the page, unless it is a ``step``. ``bare``: the line alone."""
    source = ColumnDataSource(data.smaller())
    tags = [legend, item.place, "" if step else "smooth"]
    if data.has_band and not bare:
        band = VArea(x="x", y1="least", y2="most", fill_color=colour(item.place), fill_alpha=0.18)
        plot.add_glyph(source, band, name=item.label, tags=[*tags, "band"])
    line = Line(x="x", y="y", line_color=colour(item.place), line_width=1.8, line_dash=dash(item.place))
    renderer = plot.add_glyph(source, line, name=item.label, tags=tags)
    if len(data.x) <= MARKED and not bare:
        dots(plot, legend, item, source)
    return renderer


def fit_to_points(plot: Any, data: Sequence[Curve]) -> None:
    """Axes of curves of one point each: from 0 to its place, and about as high as its value. By itself Bokeh shows 2 of each."""
    if data and all(len(each.x) == 1 for each in data):
        plot.x_range.start = 0
        plot.y_range.default_span = max(abs(float(each.mean[0])) for each in data) or 1.0


def dots(plot: Any, legend: str, item: Item, source: ColumnDataSource, hollow: bool = False, **style: Any) -> GlyphRenderer:
    """A mark for every row of ``source``."""
    fill = None if hollow else colour(item.place)
    marks = Scatter(**{"x": "x", "y": "y", "size": 5, "line_color": colour(item.place), "fill_color": fill, **style})
    return plot.add_glyph(source, marks, name=item.label, tags=[legend, item.place, "", "hollow" if hollow else "dots"])


def whiskers(plot: Any, legend: str, item: Item, source: ColumnDataSource) -> None:
    """A line from ``least`` to ``most`` at every row of ``source``."""
    lines = Segment(x0="x", x1="x", y0="least", y1="most", line_color=colour(item.place))
    plot.add_glyph(source, lines, name=item.label, tags=[legend, item.place, ""])


def hover(plot: Any, renderers: list[GlyphRenderer], rows: list[tuple[str, str]]) -> None:
    """Tell the point under the pointer: the name of its line, and ``rows`` of (what, field)."""
    if not renderers:
        return
    fields = {field for _, field in rows}
    told = [("", "$name"), *((what, f"@{field}{{%.6g}}") for what, field in rows)]
    mode = "vline" if len(renderers) <= FEW else "mouse"
    plot.add_tools(HoverTool(renderers=renderers, tooltips=told, formatters={f"@{field}": NUMBER for field in fields}, mode=mode))


def tell(plot: Any, lines: list[tuple[GlyphRenderer, Curve]], x: str) -> None:
    """The hover texts of curves: those with a band tell it."""
    bare = [line for line, data in lines if not data.has_band]
    hover(plot, bare, [(x, "x"), ("value", "y")])
    banded = [line for line, data in lines if data.has_band]
    hover(plot, banded, [(x, "x"), ("mean", "y"), ("least", "least"), ("greatest", "most"), ("runs", "runs")])


def without_first(lines: Sequence[np.ndarray], plot: Any) -> bool:
    """Let first values that dwarf the others (imports, compilation) stick out of the top; True if they do."""
    long = [line for line in lines if len(line) > 2]
    if not any(line[0] > 3.0 * np.median(line[1:]) for line in long):
        return False
    plot.y_range = Range1d(0.0, 1.1 * max(float(line[1:].max()) for line in long))
    return True


def amount(value: float) -> str:
    """A number for reading."""
    return f"{value:,.0f}" if abs(value) < 1e15 and value == round(value) else f"{value:.4g}"
