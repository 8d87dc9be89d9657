"""Figures of the page: plots that Bokeh draws in the browser, and pictures from run folders.

Every renderer has the tags (legend, item, smooth, role); the page's script shows, hides, colours and smooths by them.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, GlyphRenderer, HoverTool, Line, Range1d, Scatter, VArea
from bokeh.plotting import figure

from neuro_cli.report.downsample import Curve
from neuro_cli.run_folder.palette import colour, dash

HEIGHT = 250  # pixels
MARKED = 40  # most points of a curve whose points are marked
MANY = 24  # lines of a figure, beyond which it has neither bands nor marks
FEW = 4  # most lines that a tooltip describes at once
LARGEST = 4_000_000  # bytes of an embedded picture
IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Item:
    """Entry of a legend: its label and its place in the palette."""

    label: str
    place: int


@dataclass
class Legend:
    """Meaning of the colours of some figures. ``switches``: whether the reader may hide items."""

    name: str
    heading: str
    items: list[Item]
    switches: bool = True


@dataclass
class Picture:
    """Figure with its heading, a description for those who do not see it, and a note under it.

    ``plot``: of Bokeh; ``image``: address of a picture with its data, where there is no plot.
    """

    title: str
    plot: Any
    description: str
    note: str = ""
    image: str = ""


def embedded(paths: Iterable[Path]) -> list[Picture]:
    """Return the pictures of SVG and PNG files, with their data; of one in both formats only the SVG. Links are left out."""
    usable = [path for path in sorted(paths) if path.suffix in IMAGES and path.is_file() and not path.is_symlink()]
    chosen = [path for path in usable if path.suffix == ".svg" or path.with_suffix(".svg") not in usable]
    return [_embedded(path) for path in chosen if path.stat().st_size <= LARGEST]


def _embedded(path: Path) -> Picture:
    data = base64.b64encode(path.read_bytes()).decode()
    return Picture(path.stem, None, path.stem, image=f"data:{IMAGES[path.suffix]};base64,{data}")


def new_plot(x: str, **options: Any) -> Any:
    """Create a plot as wide as its place, which leaves a finger that scrolls the page alone."""
    plot = figure(
        height=HEIGHT, sizing_mode="stretch_width", tools="pan,box_zoom,wheel_zoom,reset,save", toolbar_location="above",
        active_drag=None, active_scroll=None, x_axis_label=x, min_border_right=12, min_border_top=8,
        background_fill_color=None, border_fill_color=None, **options,
    )  # fmt: skip
    plot.toolbar_inner, plot.toolbar.logo, plot.toolbar.autohide = True, None, True
    for side in (plot.x_range, plot.y_range):
        side.only_visible = True
    return plot


def draw(plot: Any, legend: str, item: Item, data: Curve, step: bool = False, bare: bool = False) -> GlyphRenderer:
    """Draw a curve with its band. ``step``: the reader cannot smooth it; ``bare``: the line alone."""
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


def dots(plot: Any, legend: str, item: Item, source: ColumnDataSource, alpha: float = 1.0) -> GlyphRenderer:
    """Draw a mark for every row of ``source``."""
    shade = {"line_color": colour(item.place), "fill_color": colour(item.place), "line_alpha": alpha, "fill_alpha": alpha}
    return plot.add_glyph(source, Scatter(x="x", y="y", size=5, **shade), name=item.label, tags=[legend, item.place, "", "dots"])


def fit_to_points(plot: Any, data: Sequence[Curve]) -> None:
    """Fit the axes to curves of one point each: from 0 to its place, about as high as its value. Bokeh shows 2 of each."""
    if data and all(len(each.x) == 1 for each in data):
        plot.x_range.start = 0
        plot.y_range.default_span = max(abs(float(each.mean[0])) for each in data) or 1.0


def hover(plot: Any, renderers: list[GlyphRenderer], rows: list[tuple[str, str]]) -> None:
    """Describe the point under the pointer: the name of its line, and ``rows`` of (what, field)."""
    if renderers:
        lines = [("", "$name"), *((what, f"@{field}{{%.6g}}") for what, field in rows)]
        formats = {f"@{field}": "printf" for _, field in rows}
        mode = "vline" if len(renderers) <= FEW else "mouse"
        plot.add_tools(HoverTool(renderers=renderers, tooltips=lines, formatters=formats, mode=mode))


def describe(plot: Any, lines: list[tuple[GlyphRenderer, Curve]], x: str) -> None:
    """Add the tooltips of curves, with the range of those that have a band."""
    hover(plot, [line for line, data in lines if not data.has_band], [(x, "x"), ("value", "y")])
    banded = [line for line, data in lines if data.has_band]
    hover(plot, banded, [(x, "x"), ("mean", "y"), ("least", "least"), ("greatest", "most"), ("runs", "runs")])


def without_first(lines: Sequence[np.ndarray], plot: Any) -> bool:
    """Cut off first values that dwarf the others (imports, compilation); return whether there are any."""
    long = [line for line in lines if len(line) > 2]
    if not any(line[0] > 3.0 * np.median(line[1:]) for line in long):
        return False
    plot.y_range = Range1d(0.0, 1.1 * max(float(line[1:].max()) for line in long))
    return True


def amount(value: float) -> str:
    """Format a number for reading."""
    return f"{value:,.0f}" if abs(value) < 1e15 and value == round(value) else f"{value:.4g}"
