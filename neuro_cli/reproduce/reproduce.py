"""``neuro reproduce``: runs a published table or figure again, and shows published and measured values side by side.

    FOLDER/NAME/NAME.csv .md .png .svg    an entry; FOLDER/NAME/runs: its commands and their run folders
    FOLDER/NAME/NAME_RUN_*.svg            pictures of its runs

The same command on the same folder continues, and finished runs do not run again.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from neuro_cli.core.messages.tables import print_table
from neuro_cli.reproduce.entry import Entry
from neuro_cli.reproduce.outputs import keep_pictures
from neuro_cli.reproduce.plot import plot
from neuro_cli.reproduce.requirements import missing
from neuro_cli.reproduce.results import (
    RATIO,
    RowResult,
    counts,
    page,
    ratio,
    results_of,
    shown,
    spread,
    verdict_words,
    write_results,
)
from neuro_cli.reproduce.run import EntryRun, RunOutcome, all_of
from neuro_cli.reproduce.verdict import AS_EXPECTED, FAILED, NOT_AS_EXPECTED, NOT_REPRODUCED, REPRODUCED
from neuro_cli.run_folder.checkpoint import write_atomically

STYLES = {REPRODUCED: "green", AS_EXPECTED: "green", NOT_REPRODUCED: "red", NOT_AS_EXPECTED: "red", FAILED: "red"}


def reproduce(entries: Sequence[Entry], folder: Path, root: Path) -> int:
    """Run all unfinished commands, write all outputs, and return the exit code, 1 where something failed.

    ``root``: the folder of data sets. Raises UserError, StoppedError.
    """
    for entry in entries:  # checked before the first command runs, not after hours
        for cell in all_of(entry.runs, folder / entry.name, root).values():
            cell.record()
    failed = 0
    for entry in entries:
        print(f"neuro: {entry.name}, size={entry.size}: {entry.title} (about {entry.minutes[entry.size]:g} min)", flush=True)
        results = _entry(entry, folder / entry.name, root)
        _show(entry, results)
        failed += sum(result.verdict == FAILED for result in results)
    again = f"; {failed} row{'s' * (failed > 1)} failed: the same command tries them again" if failed else ""
    print(f"neuro: results in {folder}{again}")
    return 1 if failed else 0


def _entry(entry: Entry, folder: Path, root: Path) -> list[RowResult]:
    cells = all_of(entry.runs, folder, root)
    reasons: dict[str, str] = {}
    for name, cell in cells.items():  # a run comes after the one that it works on
        reasons[name] = missing(cell.run.needs, root) or reasons.get(cell.run.of, "")
    records = {name: _played(cell) for name, cell in cells.items() if not reasons[name]}
    results = results_of(entry, cells, records, reasons)
    folder.mkdir(parents=True, exist_ok=True)
    write_results(folder / f"{entry.name}.csv", results)
    plot(entry.title, results, folder / entry.name)
    pictures = keep_pictures(entry.figures, cells, records, folder)
    write_atomically(folder / f"{entry.name}.md", page(entry, results, pictures).encode())
    return results


def _played(cell: EntryRun) -> RunOutcome:
    done = cell.record()
    if done is not None and done.finished:
        print(f"  {cell.run.name}: finished {done.date}", flush=True)
        return done
    record = cell.play()
    print(f"  {cell.run.name}: {record.line or 'finished'} after {record.seconds:.0f} s", flush=True)
    return record


def _show(entry: Entry, results: Sequence[RowResult]) -> None:
    rows = []
    for result in results:
        verdict = f"[{STYLES.get(result.verdict, 'default')}]{escape(verdict_words(result))}[/]"
        cells = (escape(result.row), shown(result.published), spread(result), ratio(result), escape(result.expected), verdict)
        rows.append(cells)
    print(f"{entry.name}: {entry.title}")
    console = print_table(("row", "published", "measured", RATIO, "expected", "verdict"), rows)
    console.print(f"{entry.name}: {counts(results)}", highlight=False)
