"""Figures of the page: plots that Bokeh draws in the browser, and pictures from run folders."""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bokeh.models import ColumnDataSource, GlyphRenderer, HoverTool, Legend, LegendItem, Line, Scatter, VArea
from bokeh.palettes import Colorblind8
from bokeh.plotting import figure

from neuro_cli.report.downsample import Curve

HEIGHT, ROW = 250, 22  # pixels of a plot, and of a line of its legend
MARKED = 40  # most points of a curve whose points are marked
MANY = len(Colorblind8)  # lines of a figure, beyond which colours repeat, and it has no legend, bands and marks
FEW = 4  # most lines that a tooltip describes at once
LARGEST = 4_000_000  # bytes of an embedded picture
IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True)
class Trace:
    """Curve of a figure. ``place``: of its colour in the palette."""

    label: str
    place: int
    data: Curve


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


def draw(plot: Any, traces: Sequence[Trace], x: str) -> None:
    """Draw curves with their bands, marks and tooltips, and a legend in which a click hides a curve."""
    bare, items = len(traces) > MANY, []
    plain: list[GlyphRenderer] = []
    banded: list[GlyphRenderer] = []
    for trace in traces:
        source, shade = ColumnDataSource(trace.data.columns()), Colorblind8[trace.place % MANY]
        parts = [plot.add_glyph(source, Line(x="x", y="y", line_color=shade, line_width=1.8), name=trace.label)]
        (banded if trace.data.has_band else plain).append(parts[0])
        if trace.data.has_band and not bare:
            parts.append(plot.add_glyph(source, VArea(x="x", y1="least", y2="most", fill_color=shade, fill_alpha=0.18)))
        if len(trace.data.x) <= MARKED and not bare:
            parts.append(plot.add_glyph(source, Scatter(x="x", y="y", size=5, line_color=shade, fill_color=shade)))
        items.append(LegendItem(label=trace.label, renderers=parts))
    if 1 < len(items) <= MANY:
        plot.add_layout(Legend(items=items, click_policy="hide", background_fill_color=None, spacing=0), "below")
        plot.height = HEIGHT + ROW * len(items)
    hover(plot, plain, [(x, "x"), ("value", "y")])
    hover(plot, banded, [(x, "x"), ("mean", "y"), ("least", "least"), ("greatest", "most"), ("runs", "runs")])


def hover(plot: Any, renderers: list[GlyphRenderer], rows: list[tuple[str, str]]) -> None:
    """Describe the point under the pointer: the name of its line, and ``rows`` of (what, field)."""
    if renderers:
        lines = [("", "$name"), *((what, f"@{field}{{%.6g}}") for what, field in rows)]
        formats = {f"@{field}": "printf" for _, field in rows}
        mode = "vline" if len(renderers) <= FEW else "mouse"
        plot.add_tools(HoverTool(renderers=renderers, tooltips=lines, formatters=formats, mode=mode))


def amount(value: float) -> str:
    """Format a number for reading."""
    return f"{value:,.0f}" if abs(value) < 1e15 and value == round(value) else f"{value:.4g}"
