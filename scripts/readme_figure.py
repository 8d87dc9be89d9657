"""Draws the README's figure, docs/noise_reuse.svg, from what `neuro reproduce table=nes_table_1 size=full` left in docs/results.

python scripts/readme_figure.py             draw it
python scripts/readme_figure.py OUT.svg     draw it elsewhere
"""

import sys
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from neuro_cli.reproduce.results import RowResult, read_results, shown
from neuro_cli.run_folder.palette import BLUE, GREY

ROOT = Path(__file__).resolve().parents[1]
FIGURE = ROOT / "docs" / "noise_reuse.svg"
RECORD = ROOT / "docs" / "results" / "full" / "nes_table_1.csv"
LAYER = "512, 512, "
# rows of the record, and what they are called here: the first two draw a number for every weight of every example
ROWS = {
    "IID": "iid",
    "Antithetic": "antithetic",
    "Permutation": "permutation",
    "Sign flip": "sign_flip",
    "low_rank 1": "low_rank",
}
PLAIN = ("iid", "antithetic")
KINDS = {GREY: "a draw for every weight", BLUE: "shared or low-rank noise"}


def main() -> int:
    draw(chosen(read_results(RECORD)), Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURE)
    return 0


def chosen(results: list[RowResult]) -> dict[str, RowResult]:
    """The rows that are drawn, by their names here."""
    by_row = {result.row: result for result in results}
    return {name: by_row[f"{LAYER}{row}"] for row, name in ROWS.items()}


def draw(rows: dict[str, RowResult], path: Path) -> None:
    """Write the SVG: measured bars from least to most, published marks, a logarithmic axis."""
    figure = Figure(figsize=(7.2, 2.6), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    for place, (name, row) in enumerate(rows.items()):
        assert row.measured is not None
        axes.barh(place, row.measured - 1, left=1, height=0.6, color=GREY if name in PLAIN else BLUE)
        axes.plot([row.least or row.measured, row.most or row.measured], [place, place], color="black", linewidth=0.9)
        end = max(row.measured, row.most or 0.0, row.published or 0.0)
        axes.annotate(f"{shown(row.measured)}x", (end, place), (8, -3), textcoords="offset points", fontsize=9)
        if row.published is not None:
            axes.plot([row.published], [place], "D", color="white", markeredgecolor="black", markersize=5)
    axes.set_xscale("log")
    axes.set_xlim(1, 300)
    axes.set_xticks([1, 2, 5, 10, 20, 50, 100, 200], ["1", "2", "5", "10", "20", "50", "100", "200"])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel("time of a forward pass with a perturbation for each example, in unperturbed passes")
    axes.spines[["top", "right"]].set_visible(False)
    bars = [axes.barh([0], [0], color=colour, label=label) for colour, label in KINDS.items()]
    mark = axes.plot([], [], "D", color="white", markeredgecolor="black", markersize=5, label="published")[0]
    axes.legend(handles=[*bars, mark], loc="lower right", frameon=False)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None, "Creator": None}, facecolor="white")


if __name__ == "__main__":
    sys.exit(main())
