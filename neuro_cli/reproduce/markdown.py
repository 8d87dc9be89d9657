"""Markdown of results: the page of one entry."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from neuro_cli.bench.table import markdown
from neuro_cli.reproduce.entry import Entry
from neuro_cli.reproduce.results import RATIO, RowResult, ratio, shown, spread
from neuro_cli.reproduce.verdict import VERDICTS


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
