"""Figure of an entry as PNG and SVG: measured and published values of every row, one panel per quantity."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from neuro_cli.reproduce.results import RowResult, hardware, shown
from neuro_cli.reproduce.verdict import (
    AS_EXPECTED,
    FAILED,
    NOT_AS_EXPECTED,
    NOT_JUDGED,
    NOT_MEASURABLE,
    NOT_REACHED,
    NOT_REPRODUCED,
    REFERENCE,
    REPRODUCED,
)
from neuro_cli.run_folder.plot import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, Line, Panel, draw

COLOURS = {
    REPRODUCED: GREEN, NOT_REPRODUCED: VERMILION, AS_EXPECTED: SKY, NOT_AS_EXPECTED: ORANGE, REFERENCE: BLUE,
    NOT_REACHED: GREY, NOT_JUDGED: GREY, NOT_MEASURABLE: GREY, FAILED: BLACK,
}  # fmt: skip
WIDE = 30.0  # largest over smallest, beyond which the axis is logarithmic


def plot(title: str, results: Sequence[RowResult], stem: Path) -> None:
    """Plot results to ``stem``.png and ``stem``.svg, with the machine below the title."""
    quantities = dict.fromkeys(result.quantity for result in results)
    panels = [_panel(name, [result for result in results if result.quantity == name]) for name in quantities]
    draw(panels, stem, title="\n".join(filter(None, (title, hardware(results)))))


def _panel(quantity: str, results: Sequence[RowResult]) -> Panel:
    finite = [value for r in results for value in (r.published, r.measured) if _finite(value)]
    positive = [value for value in finite if value is not None and value > 0]
    wide = bool(positive) and len(positive) == len(finite) and max(positive) > WIDE * min(positive)
    options = {
        "xlabel": textwrap.fill(quantity, 60), "xscale": "log" if wide else "linear", "ylim": (len(results) - 0.4, -0.6),
        "yticks": range(len(results)), "yticklabels": [result.row for result in results],
    }  # fmt: skip
    notes = [
        (result.measured if _finite(result.measured) else None, place, shown(result.measured) or result.verdict)
        for place, result in enumerate(results)
    ]
    return Panel(list(_lines(results)), options, notes=notes, height=1.5 + 0.34 * len(results))


def _lines(results: Sequence[RowResult]) -> Iterator[Line]:
    """Yield marks of the measured values, by verdict, and of the published ones."""
    for verdict, colour in COLOURS.items():
        own = [(place, r) for place, r in enumerate(results) if r.verdict == verdict]
        finite = [(place, r) for place, r in own if _finite(r.measured)]
        x, low, high = ([_finite_or(getattr(r, name), r.measured) for _, r in finite] for name in ("measured", "least", "most"))
        label = f"measured: {verdict}" if own else ""
        yield Line(x, [place for place, _ in finite], label, colour, "", "o", low=low, high=high, whiskers="x")
    published = [(r.published, place) for place, r in enumerate(results) if r.published is not None]
    x, y = ([point[n] for point in published] for n in range(2))
    yield Line(x, y, "published" if published else "", BLACK, "", "D", hollow=True)


def _finite_or(value: float | None, other: float | None) -> float:
    """Return the end of a range, or the value itself where the end is not finite."""
    return (value if _finite(value) else other) or 0.0


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
