"""Sections of the page in their order: figures, tables and sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from neuro_cli.report import curves, page_tables, searches
from neuro_cli.report.figure import Picture, amount, embedded
from neuro_cli.report.page_tables import Table
from neuro_cli.report.run_state import RunState, results_of
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.metrics import read_rows

BAND = (
    "A line is the mean of runs that differ only in their seed; its band reaches from the least to the greatest value. "
    "Where some runs have ended, it is the mean of the others."
)


@dataclass
class PageSection:
    """Heading of the page with what is under it."""

    name: str
    heading: str
    text: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def sections_of(
    jobs: Sequence[RunState], runs: Sequence[ReportedRun], groups: Sequence[Group], address: Callable[[Path], str]
) -> Iterator[PageSection]:
    """Yield all sections that have content."""
    if runs:
        yield _results(runs, address)
        yield _curves(groups)
        yield from _over_time(groups)
        yield from _search(runs, groups)
        if table := page_tables.phases(groups):
            yield PageSection("time", "Time of a generation", ["“other” is the rest of the generation."], tables=[table])
    for number, job in enumerate(job for job in jobs if job.study):
        yield _study(job, number)
    if runs:
        yield _configuration(runs)
        yield _machines(runs)


def _results(runs: Sequence[ReportedRun], address: Callable[[Path], str]) -> PageSection:
    damaged = ", ".join(f"{run.name} ({run.metrics.damaged})" for run in runs if run.metrics.damaged)
    text = [f"Lines of metrics.csv that could not be read and are left out: {damaged}."] if damaged else []
    return PageSection("results", "Results", text, tables=[page_tables.final(runs, address)])


def _curves(groups: Sequence[Group]) -> PageSection:
    columns = curves.columns_of(groups)
    if not columns:
        return PageSection("curves", "Curves", ["No generation is on file yet."])
    same = curves.constants(groups, columns)
    shown = [name for name in columns if name not in same]
    runs = [run for group in groups for run in group.runs]
    once = max(len(run.metrics) for run in runs) == 1
    often = [name for name in same if once or any(np.isfinite(run.metrics[name]).sum() > 1 for run in runs)]
    text = [BAND] if any(len(group.runs) > 1 for group in groups) else []
    if len(groups) > curves.MANY:
        text.append(f"Figures of more than {curves.MANY} lines have no legend.")
    # what was measured once is in the table of results
    values = ", ".join(f"{curves.heading_of(groups, name)} {amount(same[name])}" for name in often if same[name])
    text += [f"{'In the one generation' if once else 'The same in every generation'} of every run: {values}."] if values else []
    return PageSection("curves", "Curves", text, curves.pictures(groups, shown))


def _over_time(groups: Sequence[Group]) -> Iterator[PageSection]:
    """Yield fitness and the headlines of the evaluations over wall time."""
    measured = curves.columns_of(groups)
    headlines = dict.fromkeys(run.job.metrics[0].name for group in groups for run in group.runs if run.job.metrics)
    same = curves.constants(groups, measured)
    shown = [name for name in ("fitness_mean", *headlines) if name in measured and name not in same]
    pictures = curves.pictures(groups, shown, timed=True)
    if pictures:
        text = "Seconds of all sessions, tests included; of runs of earlier versions those of the generations alone."
        yield PageSection("wall", "Over wall time", [text], pictures)


def _search(runs: Sequence[ReportedRun], groups: Sequence[Group]) -> Iterator[PageSection]:
    picture = searches.picture(groups)
    if picture is not None:
        failed = ", ".join(f"{run.name} {count}" for run in runs if (count := searches.failures(run)))
        text = [f"Candidates that failed: {failed}; candidates.csv says why."] if failed else []
        best = page_tables.rows_table(f"The {searches.BEST} best by validation", searches.best_of(runs))
        yield PageSection("search", "Search", text, [picture], [best])


def _study(job: RunState, number: int) -> PageSection:
    """Return the pictures and CSV files of ``neuro scale`` or ``neuro bench``."""
    assert job.path is not None
    text = [job.reason] if job.reason else []
    tables = [page_tables.rows_table(path.name, read_rows(path)) for path in results_of(job.path)]
    return PageSection(f"study-{number}", f"Study {job.name}", text, embedded(job.path.iterdir()), tables)


def _configuration(runs: Sequence[ReportedRun]) -> PageSection:
    table = page_tables.typed_table(runs[0]) if len(runs) == 1 else page_tables.config_table(runs)
    alike = "All runs have the same config." if len(runs) > 1 else "All keys have the defaults of the command."
    text = [] if table else [alike]
    return PageSection("configuration", "Configuration", text, tables=[table] if table else [])


def _machines(runs: Sequence[ReportedRun]) -> PageSection:
    table, unknown = page_tables.machines(runs), [run.name for run in runs if not run.summary]
    text = [f"No summary yet: {', '.join(unknown)}."] if unknown else []
    return PageSection("machines", "Machines and versions", text, tables=[table] if table else [])
