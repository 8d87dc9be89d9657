"""HTML page of all entries of a command, by the page maker of ``neuro report``: figures inside, usable offline."""

from collections.abc import Sequence
from pathlib import Path

from neuro_cli.report.figure import embedded
from neuro_cli.report.page import write_sections
from neuro_cli.report.page_tables import Table, TableCell, cell, text_cell
from neuro_cli.report.sections import PageSection
from neuro_cli.reproduce.entry import Entry
from neuro_cli.reproduce.markdown import counts, verdict_words
from neuro_cli.reproduce.results import RATIO, RowResult, ratio, shown, spread

PAGE = "index.html"
HEAD = ["row", "what", "published", "measured", RATIO, "expected", "verdict"]


def write_page(folder: Path, entries: Sequence[tuple[Entry, Sequence[RowResult]]]) -> None:
    """Write ``folder``/index.html over ``entries``; their files are in ``folder``/NAME."""
    lines = [
        [TableCell(entry.name, entry.name, f"#{entry.name}"), *map(text_cell, _facts(entry, rows))] for entry, rows in entries
    ]
    summary = PageSection("entries", "Entries", tables=[Table("Entries", ["entry", "what", "size", "verdicts"], lines)])
    sections = [_section(entry, results, folder / entry.name) for entry, results in entries]
    write_sections([summary, *sections], folder / PAGE, "Published and measured")


def _facts(entry: Entry, results: Sequence[RowResult]) -> tuple[str, str, str]:
    return entry.title, entry.size, counts(results)


def _section(entry: Entry, results: Sequence[RowResult], folder: Path) -> PageSection:
    pictures = embedded([folder / f"{entry.name}.svg", *folder.glob(f"{entry.name}_*")])
    rows = [
        [
            text_cell(result.row),
            text_cell(result.quantity),
            TableCell(shown(result.published), cell(result.published).key),
            TableCell(spread(result), cell(result.measured).key),
            text_cell(ratio(result)),
            text_cell(result.expected),
            TableCell(verdict_words(result), result.verdict, state=result.verdict.replace(" ", "-")),
        ]
        for result in results
    ]
    columns = ("command", "machine", "date", "git_revision")
    values = [dict.fromkeys(getattr(result, name) for result in results if result.date) for name in columns]
    facts = [text for some in values for text in some if text]
    text = [entry.source, *([entry.note] if entry.note else []), *facts]
    return PageSection(
        entry.name, f"{entry.name}: {entry.title}", text, pictures=pictures, tables=[Table(entry.name, HEAD, rows)]
    )
