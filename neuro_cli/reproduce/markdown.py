"""Markdown of results: the table of one entry, and a summary with one line per entry."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from neuro_cli.bench.table import markdown
from neuro_cli.reproduce.entry import Entry
from neuro_cli.reproduce.results import RATIO, RowResult, hardware, ratio, shown, spread
from neuro_cli.reproduce.verdict import REFERENCE, VERDICTS

FEW = 3


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
    """Format verdict and reason, ``not measurable here: there is no GPU``."""
    return f"{result.verdict}: {result.reason}" if result.reason else result.verdict


def facts(results: Sequence[RowResult]) -> str:
    """Return the lines with commands, date, versions and machine."""
    first = f"- `neuro reproduce table={results[0].table} size={results[0].size}`, which ran"
    commands = [f"  - `{command}`" for command in _distinct(result.command for result in results if result.date)]
    machines = [f"- {machine}" for machine in _distinct(result.machine for result in results)]
    dates = ", ".join(sorted(_distinct(result.date for result in results))) or "never"
    revisions = ", ".join(_distinct(result.git_revision for result in results)) or "unknown"
    return "\n".join([first, *commands, *machines, f"- {dates}; git revision {revisions}"])


def summary(pages: Mapping[str, Sequence[RowResult]]) -> str:
    """Return a table with a line per page of ``pages`` (an address and the results there) and its counts of verdicts."""
    lines = [
        (f"[{rows[0].table}]({address})", _size(rows), counts(rows), hardware(rows), max(result.date for result in rows))
        for address, rows in pages.items()
    ]
    return markdown(("entry", "size", "verdicts", "machine", "date"), lines)


def on_gpu(results: Sequence[RowResult]) -> bool:
    """Return whether rows were measured on a GPU: the machine's description names a driver, in earlier files a maker."""
    return any(word in result.machine for result in results for word in ("driver ", "NVIDIA"))


def _size(results: Sequence[RowResult]) -> str:
    return f"{results[0].size}, GPU" if on_gpu(results) else results[0].size


def headlines(pages: Mapping[str, Sequence[RowResult]]) -> str:
    """Return the headline rows of each entry: those with a published value, else the first few that were judged.

    The machines follow below the table, each with its entries where there are several.
    """
    lines = []
    for address, results in pages.items():
        judged = [result for result in results if result.verdict != REFERENCE]
        chosen = [result for result in judged if result.published is not None] or judged[:FEW]
        lines += [
            (
                f"[{result.table}]({address}), {_size(results)}",
                result.row,
                result.quantity,
                shown(result.published),
                spread(result),
                ratio(result),
                verdict_words(result),
            )
            for result in chosen
        ]
    rows = markdown(("entry", "row", "what", "published", "measured", RATIO, "verdict"), lines)
    return f"{rows}\n\n{_machines(list(pages.values()))}"


def _machines(entries: Sequence[Sequence[RowResult]]) -> str:
    """Return a sentence on the machines of ``entries``; empty without a measured row."""
    places: dict[str, list[str]] = {}
    for results in entries:
        places.setdefault(hardware(results), []).append(results[0].table)
    places.pop("", None)
    if len(places) == 1:
        return f"Measured on: {next(iter(places))}."
    return " ".join(f"Measured on: {machine} ({', '.join(names)})." for machine, names in places.items())


def counts(results: Sequence[RowResult]) -> str:
    """Format counts of verdicts, ``3 reproduced, 1 not measurable here``, without rows that are only references."""
    words = Counter(result.verdict for result in results)
    return ", ".join(f"{words[verdict]} {verdict}" for verdict in VERDICTS[:-1] if words[verdict])


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))
