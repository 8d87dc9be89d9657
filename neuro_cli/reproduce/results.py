"""Results of an entry: rows with published and measured values and their verdicts, written as CSV and as a page of Markdown."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from neuro_cli.bench.table import markdown
from neuro_cli.core.errors import UserError
from neuro_cli.reproduce.entry import Entry, EntryRow
from neuro_cli.reproduce.outputs import Measured, measured
from neuro_cli.reproduce.run import EntryRun, RunOutcome
from neuro_cli.reproduce.verdict import FAILED, NOT_MEASURABLE, PUBLISHED, VERDICTS, Verdict, judge
from neuro_cli.run_folder.checkpoint import write_atomically


@dataclass(frozen=True)
class RowResult:
    """Result of a row of the table. Missing numbers are None; ``expected`` is empty for a row that is only a reference."""

    table: str
    size: str
    row: str
    quantity: str
    published: float | None
    measured: float | None
    least: float | None
    most: float | None
    expected: str
    verdict: str
    reason: str
    command: str
    date: str
    git_revision: str
    machine: str


RATIO = "measured / published"  # a bound is met from one side alone, and this shows how far


def results_of(
    entry: Entry, cells: Mapping[str, EntryRun], records: Mapping[str, RunOutcome], reasons: Mapping[str, str]
) -> list[RowResult]:
    """Compute all rows of an entry's results. ``records``: of the finished runs; ``reasons``: why the others cannot run here."""
    values: dict[str, Measured] = {}
    troubles: dict[str, Verdict] = {}
    for row in entry.rows:
        record = records.get(row.run)
        if record is None:
            troubles[row.name] = Verdict(NOT_MEASURABLE, reasons[row.run])
        elif not record.finished:
            troubles[row.name] = Verdict(FAILED, record.line)
        else:
            try:
                values[row.name] = measured(row, cells[row.run].folders(record))
            except UserError as error:
                troubles[row.name] = Verdict(FAILED, str(error))
    others = {row.name: values[row.name].value if row.name in values else None for row in entry.rows}
    lines = []
    for row in entry.rows:
        record = records.get(row.run)
        verdict = troubles.get(row.name) or judge(
            values[row.name].value, row.expect, {PUBLISHED: row.published, **others}, record is not None and record.gpu,
            values[row.name].tried, row.quantity.partition(" ")[0],
        )  # fmt: skip
        lines.append(_line(entry, row, values.get(row.name), verdict, cells[row.run].command, record))
    return lines


def _line(
    entry: Entry, row: EntryRow, number: Measured | None, verdict: Verdict, command: str, record: RunOutcome | None
) -> RowResult:
    return RowResult(
        table=entry.name,
        size=entry.size,
        row=row.name,
        quantity=row.quantity,
        published=row.published,
        measured=None if number is None else number.value,
        least=None if number is None else number.least,
        most=None if number is None else number.most,
        expected="; ".join(map(str, row.expect)),
        verdict=verdict.word,
        reason=verdict.reason,
        command=command,
        date="" if record is None else record.date,
        git_revision="" if record is None else record.git_revision or "",
        machine="" if record is None else record.machine,
    )


def write_results(path: Path, results: Sequence[RowResult]) -> None:
    """Write the results as a CSV file, with numbers in full and missing ones empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(RowResult)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(result) for result in results)
    write_atomically(path, text.getvalue().encode())


def shown(value: float | None) -> str:
    """Format a result for tables; empty for None."""
    if value is None:
        return ""
    if math.isinf(value):
        return "not reached"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value == 0 or abs(value) < 0.01 else f"{value:.4g}"


def spread(result: RowResult) -> str:
    """Format the measured value, with minimum and maximum where they differ."""
    if result.least == result.most:
        return shown(result.measured)
    return f"{shown(result.measured)} ({shown(result.least)} to {shown(result.most)})"


def ratio(result: RowResult) -> str:
    """Format the measured value over the published one; empty where one is missing, not finite or 0."""
    values = [value for value in (result.measured, result.published) if value and math.isfinite(value)]
    return f"{values[0] / values[1]:.2f}" if len(values) == 2 else ""


def hardware(results: Sequence[RowResult]) -> str:
    """Return processor, cores and GPU of ``results``, without the versions that follow in a machine's description."""
    machines = dict.fromkeys(result.machine.partition(", python ")[0] for result in results)
    return "; ".join(filter(None, machines))


def page(entry: Entry, results: Sequence[RowResult], pictures: Sequence[Path] = ()) -> str:
    """Return the text of the file NAME.md. ``pictures``: further ones, next to it."""
    published = f"Source: {entry.source}"
    parts = [f"# {entry.name}: {entry.title}", published, entry.note, f"![published and measured]({entry.name}.svg)"]
    parts += [f"![{picture.stem}]({picture.name})" for picture in pictures]
    return "\n\n".join([*filter(None, parts), table(results), facts(results)]) + "\n"


def table(results: Sequence[RowResult]) -> str:
    """Return the table of published and measured values side by side, one line per row."""
    ratios = [ratio(result) for result in results]
    columns = {
        "row": [result.row for result in results],
        "what": [result.quantity for result in results],
        "published": [shown(result.published) for result in results],
        "measured": [spread(result) for result in results],
        **({RATIO: ratios} if any(ratios) else {}),
        "expected": [result.expected for result in results],
        "verdict": [verdict_words(result) for result in results],
    }
    return markdown(tuple(columns), [*zip(*columns.values(), strict=True)])


def verdict_words(result: RowResult) -> str:
    """Format verdict and reason, ``not measurable here: there is no GPU`` or ``not reached in 3 minutes``."""
    if result.reason.startswith(result.verdict):
        return result.reason
    return f"{result.verdict}: {result.reason}" if result.reason else result.verdict


def facts(results: Sequence[RowResult]) -> str:
    """Return the lines of Markdown with commands, date, versions and machine."""
    first = f"- `neuro reproduce table={results[0].table} size={results[0].size}`, which ran"
    commands = [f"  - `{command}`" for command in _distinct(result.command for result in results if result.date)]
    machines = [f"- {machine}" for machine in _distinct(result.machine for result in results)]
    dates = ", ".join(sorted(_distinct(result.date for result in results))) or "never"
    revisions = ", ".join(_distinct(result.git_revision for result in results)) or "unknown"
    return "\n".join([first, *commands, *machines, f"- {dates}; git revision {revisions}"])


def counts(results: Sequence[RowResult]) -> str:
    """Format counts of verdicts as Markdown, ``3 reproduced, 1 not measurable here``, without rows that are only references."""
    words = Counter(result.verdict for result in results)
    return ", ".join(f"{words[verdict]} {verdict}" for verdict in VERDICTS[:-1] if words[verdict])


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))
