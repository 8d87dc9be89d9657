"""What stands on the page, in its order: sections of figures, tables and sentences."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuro_cli.report import curves, page_tables, scaling, searches
from neuro_cli.report import phases as split
from neuro_cli.report.figure import MANY, Item, Legend, Picture, amount
from neuro_cli.report.page_tables import Table, TableCell
from neuro_cli.report.run_state import RunState, results_of
from neuro_cli.report.runs import Group, ReportedRun
from neuro_cli.run_folder.rows import read_rows

BAND = (
    "A line is the mean of the runs that differ in their seed only; its band reaches from the least to the greatest value "
    "among them. Where some have ended, it is of the others."
)


@dataclass
class PageSection:
    """A heading of the page and what is under it. ``smooth``: there are curves that the reader can smooth."""

    name: str
    heading: str
    text: list[str] = field(default_factory=list)
    legends: list[Legend] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    smooth: bool = False

    def placed(self) -> Iterator[tuple[str, Picture]]:
        """Every picture with the name of its place on the page."""
        return ((f"{self.name}-plot-{number}", picture) for number, picture in enumerate(self.pictures))


def sections_of(
    jobs: Sequence[RunState], runs: Sequence[ReportedRun], groups: Sequence[Group], address: Callable[[Path], str]
) -> list[PageSection]:
    """All sections that have something to say."""
    made: list[PageSection | None] = []
    if runs:
        made += [
            _results(runs, address),
            _curves(groups),
            _over_time(groups),
            _search(runs, groups),
            _bytes(groups),
            _time(groups),
        ]
    made += [_study(job, number) for number, job in enumerate(job for job in jobs if job.study)]
    if runs:
        made += [_configuration(runs), _machines(runs)]
    return [section for section in made if section is not None]


def _results(runs: Sequence[ReportedRun], address: Callable[[Path], str]) -> PageSection:
    section = PageSection("results", "Results", tables=[page_tables.final(runs, address)])
    damaged = [f"{run.name} ({run.metrics.damaged})" for run in runs if run.metrics.damaged]
    if damaged:
        section.text.append(f"Lines of metrics.csv that could not be read and are left out: {', '.join(damaged)}.")
    return section


def _curves(groups: Sequence[Group]) -> PageSection | None:
    columns = [name for name in curves.columns_of(groups) if name not in curves.BYTES]
    if not columns:
        return PageSection("curves", "Curves", text=["No generation is on file yet."])
    same = curves.constants(groups, columns)
    mirrors = curves.mirrored(groups, [name for name in columns if name not in same])
    shown = [name for name in columns if name not in same and name not in mirrors]
    section = PageSection("curves", "Curves", smooth=True, legends=_legends(groups, shown))
    heads = [[curves.heading_of(groups, name) for name in pair] for pair in mirrors.items()]
    told = [f"Without a figure: {first} is {other} with the other sign." for first, other in heads]
    section.text = [*_reading(groups, shown), *told, *_sentence(groups, same)]
    section.pictures = curves.pictures(groups, sorted(shown, key=lambda name: name in curves.TIME))
    return section


def _over_time(groups: Sequence[Group]) -> PageSection | None:
    """Columns by which runs are compared over wall time: the fitness and the headlines of their evaluations."""
    measured = curves.columns_of(groups)
    headlines = dict.fromkeys(run.job.metrics[0].name for group in groups for run in group.runs if run.job.metrics)
    columns = [name for name in ("fitness_mean", *headlines) if name in measured]
    pictures = curves.over_time(groups, columns) if columns else []
    if not pictures:
        return None
    legends = [replace(legend, switches=False) for legend in _legends(groups, [])]  # those of the curves switch these too
    section = PageSection("wall", "Over wall time", legends=legends, pictures=pictures)
    section.text.append("Seconds of all sessions, tests included; of runs of earlier versions those of the generations alone.")
    return section


def _legends(groups: Sequence[Group], columns: Sequence[str]) -> list[Legend]:
    legends = []
    if len(groups) > 1:
        legends.append(Legend(curves.LEGEND, "runs", [Item(group.label, place) for place, group in enumerate(groups)]))
    numbers = sorted({int(match[1]) for match in map(curves.OF_MEMBER.fullmatch, columns) if match})
    if len(groups) == 1 and numbers:
        legends.append(Legend("members", "members", [Item(f"member {number}", number) for number in numbers]))
    return legends


def _reading(groups: Sequence[Group], columns: Sequence[str]) -> list[str]:
    text = [BAND] if any(len(group.runs) > 1 for group in groups) else []
    width = curves.buckets(groups, columns)
    if width > 1:
        thinned = f"The longest curves are thinned: a point is the mean of {width} generations"
        text.append(f"{thinned}, and the band has the least and the greatest of them.")
    if len(groups) > MANY:
        text.append(f"Bands and marks are left out of figures with more than {MANY} lines; pointing at a line tells its range.")
    return text


def _sentence(groups: Sequence[Group], same: dict[str, float]) -> list[str]:
    values = ", ".join(f"{curves.heading_of(groups, name)} {amount(value)}" for name, value in same.items())
    return [f"The same in every generation of every run: {values}."] if same else []


def _search(runs: Sequence[ReportedRun], groups: Sequence[Group]) -> PageSection | None:
    picture = searches.picture(groups)
    if picture is None:
        return None
    section = PageSection("search", "Search", pictures=[picture])
    failed = [f"{run.name} {count}" for run in runs if (count := searches.failures(run))]
    if failed:
        section.text.append(f"Candidates that failed: {', '.join(failed)}; candidates.csv says why.")
    section.tables.append(page_tables.rows_table(f"The {searches.BEST} best by validation", searches.best_of(runs)))
    return section


def _bytes(groups: Sequence[Group]) -> PageSection | None:
    columns = [name for name in curves.columns_of(groups) if name in curves.BYTES]
    same = curves.constants(groups, columns)
    if all(same.get(name) == 0.0 for name in columns):
        return None
    section = PageSection(
        "bytes", "Bytes on the wire", text=["Payload of a generation, counted where collectives are called (rank 0)."]
    )
    section.text += _sentence(groups, same)
    section.pictures = curves.pictures(groups, [name for name in columns if name not in same])
    totals = _totals(groups, columns)
    if totals is not None and len(same) < len(columns):
        section.tables.append(totals)
    return section


def _totals(groups: Sequence[Group], columns: Sequence[str]) -> Table | None:
    rows = []
    for group in groups:
        for run in group.runs:
            sums = [run.metrics[name][run.metrics[name] == run.metrics[name]].sum() for name in columns]
            if len(run.metrics):
                rows.append([TableCell(run.name, run.name), *(TableCell(f"{total / 1e6:,.3f}", float(total)) for total in sums)])
    return (
        Table("Megabytes in all generations", ["run", *(name.replace("bytes_", "") for name in columns)], rows) if rows else None
    )


def _time(groups: Sequence[Group]) -> PageSection | None:
    phases = split.phases_of(groups)
    if not phases:
        return None
    found = split.means(groups, phases)
    section = PageSection("time", "Time of a generation", legends=[split.legend(groups)], pictures=split.pictures(groups))
    section.text = ["Seconds of each phase on top of each other (rank 0); “other” is what is left of the generation."]
    if len(section.pictures) < len(groups):
        section.text.append(f"Figures of the first {len(section.pictures)} of {len(groups)} groups; the table has all.")
    rows = [
        [TableCell(mean.label, mean.label), TableCell(amount(mean.seconds), mean.seconds)]
        + [
            TableCell(f"{amount(value)} ({value / mean.seconds:.0%})" if mean.seconds else "", value)
            for value in mean.phases.values()
        ]
        for mean in found
    ]
    section.tables.append(Table("Mean seconds of a generation", ["runs", "all", *phases, split.REST], rows))
    return section


def _study(job: RunState, number: int) -> PageSection:
    assert job.path is not None
    files = results_of(job.path)
    section = PageSection(f"study-{number}", f"Study {job.name}", tables=[page_tables.csv_table(path) for path in files])
    if job.reason:
        section.text.append(job.reason)
    path = job.path / scaling.FILE
    rows = scaling.whole(read_rows(path))
    if path in files and rows:
        legend = scaling.legend(rows, section.name)
        section.legends, section.pictures = [legend], scaling.pictures(rows, legend)
        section.text.append("Full marks are measured (median, whiskers from least to greatest), hollow ones projected.")
    return section


def _configuration(runs: Sequence[ReportedRun]) -> PageSection | None:
    if len(runs) == 1:
        return PageSection("configuration", "Configuration", tables=[page_tables.typed_table(runs[0])])
    table = page_tables.config_table(runs)
    text = [] if table else ["All runs have the same config."]
    return PageSection("configuration", "Configuration", text=text, tables=[table] if table else [])


def _machines(runs: Sequence[ReportedRun]) -> PageSection | None:
    table = page_tables.machines(runs)
    unknown = [run.name for run in runs if not run.summary]
    text = [f"No summary yet: {', '.join(unknown)}."] if unknown else []
    return PageSection("machines", "Machines and versions", text=text, tables=[table] if table else [])
