"""Figures of a scaling study, from ``scaling.csv``: efficiency and seconds against ranks, a figure for every network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, GlyphRenderer, Line, LogTicker, Span

from neuro_cli.report.figure import Item, Legend, Picture, amount, dots, hover, new_plot, whiskers
from neuro_cli.report.page_tables import number
from neuro_cli.run_folder.palette import colour, dash
from neuro_cli.run_folder.rows import Rows

FILE = "scaling.csv"
IDEAL = {"weak": "weak scaling: t1 / tN, members grow with the ranks", "strong": "strong scaling: t1 / (N tN), the same members"}
MEASURED = "measured"
WHAT = {"efficiency": "efficiency", "seconds": "seconds per generation"}


def legend(rows: Rows, name: str) -> Legend:
    """An entry for each method."""
    return Legend(
        name, "methods", [Item(label, place) for place, label in enumerate(dict.fromkeys(row["method"] for row in rows))]
    )


def pictures(rows: Rows, legend: Legend) -> list[Picture]:
    """Weak before strong, efficiency before seconds, the networks side by side. Rows without numbers are left out."""
    studies = dict.fromkeys((row.get("model", ""), row["scaling"], row["scale"]) for row in rows)
    made = []
    for what in WHAT:
        for study in studies:
            for fabric in dict.fromkeys(row["fabric"] for row in rows):
                here = [
                    row for row in rows if (row.get("model", ""), row["scaling"], row["scale"], row["fabric"]) == (*study, fabric)
                ]
                known = [row for row in here if number(row, f"{what}_middle") is not None]
                if any(int(row["ranks"]) > 1 for row in known):
                    made.append(_picture(known, what, legend))
    return made


def _picture(rows: Rows, what: str, legend: Legend) -> Picture:
    first = rows[0]
    emulated = any(row.get("emulated") == "True" and row["source"] == MEASURED for row in rows)
    members = f"{first['scale']} members {'per rank' if first['scaling'] == 'weak' else 'in all'}"
    model = f"{first['model']}, " if first.get("model") else ""  # studies of earlier versions have no such column
    title = f"{model}{first['scaling']}, {members}, {first['fabric']}{' (emulated)' if emulated else ''}: {WHAT[what]}"
    plot = new_plot("ranks", x_axis_type="log", **({} if what == "efficiency" else {"y_axis_type": "log"}))
    plot.xaxis.ticker = FixedTicker(ticks=sorted({int(row["ranks"]) for row in rows}))
    if what == "seconds":
        plot.yaxis.ticker = LogTicker(mantissas=[1, 2, 5], num_minor_ticks=0, desired_num_ticks=4)
    else:
        plot.add_layout(Span(location=1.0, dimension="width", line_color="#808080", line_width=0.8))
        plot.y_range.start = 0
    lines, last = [], []
    for item in legend.items:
        mine = [row for row in rows if row["method"] == item.label]
        if mine:
            lines += _line(plot, legend.name, item, mine, what)
            last.append(f"{item.label} {amount(number(mine[-1], f'{what}_middle') or 0.0)} at {mine[-1]['ranks']} ranks")
    hover(plot, lines, [("ranks", "x"), ("median", "y"), ("least", "least"), ("greatest", "most")])
    note = IDEAL.get(first["scaling"], "") if what == "efficiency" else ""
    return Picture(title, plot, f"{title}; {'; '.join(last)}", note)


def _line(plot: Any, name: str, item: Item, rows: Rows, what: str) -> list[GlyphRenderer]:
    """Measured points are full and have whiskers; projected ones are hollow, their line is dotted."""
    every, measured = _source(rows, what), _source([row for row in rows if row["source"] == MEASURED], what)
    projected = _source([row for row in rows if row["source"] != MEASURED], what)
    thin = Line(x="x", y="y", line_color=colour(item.place), line_width=1, line_dash="dotted")
    plot.add_glyph(every, thin, name=item.label, tags=[name, item.place, ""])
    line = Line(x="x", y="y", line_color=colour(item.place), line_width=1.8, line_dash=dash(item.place))
    plot.add_glyph(measured, line, name=item.label, tags=[name, item.place, ""])
    whiskers(plot, name, item, measured)
    marks = [dots(plot, name, item, measured, size=7)]
    return [*marks, dots(plot, name, item, projected, hollow=True, size=7)] if len(projected.data["x"]) else marks


def _source(rows: Rows, what: str) -> ColumnDataSource:
    columns = {"x": "ranks", "y": f"{what}_middle", "least": f"{what}_least", "most": f"{what}_most"}
    values = {name: [number(row, column) for row in rows] for name, column in columns.items()}
    middle = values["y"]  # where a spread is not known there is none
    return ColumnDataSource(
        {
            name: np.array([value if value is not None else other for value, other in zip(some, middle, strict=True)], np.float32)
            for name, some in values.items()
        }
    )


def whole(rows: Rows) -> Sequence[dict[str, str]]:
    """The rows that have what a figure needs."""
    needed = ("scaling", "fabric", "method", "scale", "ranks", "source")
    return [row for row in rows if all(row.get(name) for name in needed) and row["ranks"].isdigit() and int(row["ranks"]) > 0]
