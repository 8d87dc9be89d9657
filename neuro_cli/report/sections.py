"""Sections of the page in their order: figures, tables and sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuro_cli.report import curves, page_tables, phases, searches
from neuro_cli.report.figure import MANY, Item, Legend, Picture, amount, embedded
from neuro_cli.report.page_tables import Table, TableCell, text_cell
from neuro_cli.report.run_state import RunState, results_of
from neuro_cli.report.runs import Group, ReportedRun

BAND = (
    "A line is the mean of runs that differ only in their seed; its band reaches from the least to the greatest value. "
    "Where some runs have ended, it is the mean of the others."
)


@dataclass
class PageSection:
    """Heading of the page with what is under it. ``smooth``: it has curves that the reader can smooth."""

    name: str
    heading: str
    text: list[str] = field(default_factory=list)
    legends: list[Legend] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    smooth: bool = False

    def placed(self) -> Iterator[tuple[str, Picture]]:
        """Yield every picture with the name of its place on the page."""
        return ((f"{self.name}-plot-{number}", picture) for number, picture in enumerate(self.pictures))


def sections_of(
    jobs: Sequence[RunState], runs: Sequence[ReportedRun], groups: Sequence[Group], address: Callable[[Path], str]
) -> list[PageSection]:
    """Return all sections that have content."""
    of_runs = [_results(runs, address), _curves(groups), _over_time(groups), _search(runs, groups), _time(groups)] if runs else []
    studies = [_study(job, number) for number, job in enumerate(job for job in jobs if job.study)]
    sections = [*of_runs, *studies, *([_configuration(runs), _machines(runs)] if runs else [])]
    return [section for section in sections if section is not None]


def _results(runs: Sequence[ReportedRun], address: Callable[[Path], str]) -> PageSection:
    damaged = ", ".join(f"{run.name} ({run.metrics.damaged})" for run in runs if run.metrics.damaged)
    text = [f"Lines of metrics.csv that could not be read and are left out: {damaged}."] if damaged else []
    return PageSection("results", "Results", text, tables=[page_tables.final(runs, address)])


def _curves(groups: Sequence[Group]) -> PageSection:
    columns = curves.columns_of(groups)
    if not columns:
        return PageSection("curves", "Curves", ["No generation is on file yet."])
    same = curves.constants(groups, columns)
    mirrors = curves.mirrored(groups, [name for name in columns if name not in same])
    shown = [name for name in columns if name not in same and name not in mirrors]
    text = _reading(groups, shown)
    for name, other in mirrors.items():
        heads = [curves.heading_of(groups, each) for each in (name, other)]
        text.append(f"Without a figure: {heads[0]} is {heads[1]} with the other sign.")
    values = ", ".join(f"{curves.heading_of(groups, name)} {amount(value)}" for name, value in same.items() if value)
    text += [f"The same in every generation of every run: {values}."] if values else []
    return PageSection("curves", "Curves", text, _legends(groups, shown), curves.pictures(groups, shown), smooth=True)


def _over_time(groups: Sequence[Group]) -> PageSection | None:
    """Return fitness and the headlines of the evaluations over wall time."""
    measured = curves.columns_of(groups)
    headlines = dict.fromkeys(run.job.metrics[0].name for group in groups for run in group.runs if run.job.metrics)
    pictures = curves.over_time(groups, [name for name in ("fitness_mean", *headlines) if name in measured])
    if not pictures:
        return None
    legends = [
        replace(legend, switches=False) for legend in _legends(groups, [])
    ]  # switches of the curves act on these figures too
    text = "Seconds of all sessions, tests included; of runs of earlier versions those of the generations alone."
    return PageSection("wall", "Over wall time", [text], legends, pictures)


def _legends(groups: Sequence[Group], columns: Sequence[str]) -> list[Legend]:
    if len(groups) > 1:
        return [Legend(curves.LEGEND, "runs", [Item(group.label, place) for place, group in enumerate(groups)])]
    numbers = sorted({int(match[1]) for match in map(curves.OF_MEMBER.fullmatch, columns) if match})
    return [Legend(curves.MEMBERS, "members", [Item(f"member {number}", number) for number in numbers])] if numbers else []


def _reading(groups: Sequence[Group], columns: Sequence[str]) -> list[str]:
    text = [BAND] if any(len(group.runs) > 1 for group in groups) else []
    width = curves.buckets(groups, columns)
    if width > 1:
        thinned = f"The longest curves are thinned: a point is the mean of {width} generations"
        text.append(f"{thinned}, and the band has the least and the greatest of them.")
    if len(groups) > MANY:
        text.append(f"Bands and marks are left out of figures with more than {MANY} lines; pointing at a line shows its range.")
    return text


def _search(runs: Sequence[ReportedRun], groups: Sequence[Group]) -> PageSection | None:
    picture = searches.picture(groups)
    if picture is None:
        return None
    failed = ", ".join(f"{run.name} {count}" for run in runs if (count := searches.failures(run)))
    text = [f"Candidates that failed: {failed}; candidates.csv says why."] if failed else []
    best = page_tables.rows_table(f"The {searches.BEST} best by validation", searches.best_of(runs))
    return PageSection("search", "Search", text, pictures=[picture], tables=[best])


def _time(groups: Sequence[Group]) -> PageSection | None:
    names = phases.phases_of(groups)
    if not names:
        return None
    pictures = phases.pictures(groups, names)
    text = ["Seconds of each phase on top of each other (rank 0); “other” is the rest of the generation."]
    if len(pictures) < len(groups):
        text.append(f"Figures of the first {len(pictures)} of {len(groups)} groups; the table has all.")
    means = {group.label: mean for group in groups if (mean := phases.means(group, names))}
    rows = [[text_cell(label), *_shares(mean)] for label, mean in means.items()]
    table = Table("Mean seconds of a generation", ["runs", "all", *names, phases.REST], rows)
    return PageSection("time", "Time of a generation", text, [phases.legend(names)], pictures, [table])


def _shares(mean: dict[str, float]) -> list[TableCell]:
    """Return the cells of a mean generation's seconds, and of each phase with its share."""
    total = sum(mean.values())
    cells = [TableCell(f"{amount(value)} ({value / total:.0%})" if total else "", value) for value in mean.values()]
    return [TableCell(amount(total), total), *cells]


def _study(job: RunState, number: int) -> PageSection:
    """Return the pictures and CSV files of ``neuro scale`` or ``neuro bench``."""
    assert job.path is not None
    text = [job.reason] if job.reason else []
    tables = [page_tables.csv_table(path) for path in results_of(job.path)]
    return PageSection(f"study-{number}", f"Study {job.name}", text, pictures=embedded(job.path.iterdir()), tables=tables)


def _configuration(runs: Sequence[ReportedRun]) -> PageSection:
    table = page_tables.typed_table(runs[0]) if len(runs) == 1 else page_tables.config_table(runs)
    text = [] if table else ["All runs have the same config."]
    return PageSection("configuration", "Configuration", text, tables=[table] if table else [])


def _machines(runs: Sequence[ReportedRun]) -> PageSection:
    table, unknown = page_tables.machines(runs), [run.name for run in runs if not run.summary]
    text = [f"No summary yet: {', '.join(unknown)}."] if unknown else []
    return PageSection("machines", "Machines and versions", text, tables=[table] if table else [])
