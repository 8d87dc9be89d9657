"""Figure and table of architecture searches, from ``candidates.csv``."""

from collections.abc import Sequence

from neuro_cli.core.metric import ACCURACY
from neuro_cli.report.figure import Picture, amount, drawn
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.candidates import FILE, SCORE, panel_of_searches, trained
from neuro_cli.run_folder.metrics import Rows, read_rows
from neuro_cli.run_folder.plot import CYCLE

BEST = 10  # candidates in the table
COLUMNS = ("candidate", "module", "layers", "parameters", SCORE, ACCURACY.name, "seconds")


def failures(run: ReportedRun) -> int:
    """Return the number of a search's candidates that failed."""
    return sum(bool(row.get("error")) for row in read_rows(run.path / FILE))


def picture(groups: Sequence[Group]) -> Picture | None:
    """Return the figure of every candidate and the best so far; None when no run is a search."""
    searches = []
    for place, group in enumerate(groups):
        for rows in filter(None, (trained(run.path) for run in group.runs)):
            searches.append((group.label, CYCLE[place % len(CYCLE)], rows))
    if not searches:
        return None
    ends = [f"{label} {amount(max(float(row[SCORE]) for row in rows))}" for label, _, rows in searches]
    described = f"best validation accuracy so far; last: {'; '.join(ends)}"
    panel = panel_of_searches(searches, height=3.2)
    return drawn("candidates of a search", panel, described, "Dots: candidates; line: the best so far.")


def best_of(runs: Sequence[ReportedRun]) -> Rows:
    """Return the candidates with the best validation accuracy, each with its ``run``."""
    rows = [{"run": run.name, **{name: row.get(name) or "" for name in COLUMNS}} for run in runs for row in trained(run.path)]
    return sorted(rows, key=lambda row: -float(row[SCORE]))[:BEST]
