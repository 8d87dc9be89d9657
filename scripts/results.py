"""Keeps the outcome of `neuro reproduce` in docs/results/SIZE/ (a GPU's in docs/results/gpu/), and its tables in README and docs.

    python scripts/results.py outputs/reproduce/STAMP     copy CSV, Markdown and pictures of its entries, then fill the tables
    python scripts/results.py                             fill the tables
    python scripts/results.py --check                     exit code 1 where a table is not what its file says

A table is between `<!-- results:NAME -->` and `<!-- /results -->`. NAME is an entry, `summary` for a line for each kept file,
one of GROUPS for the headlines of some entries, or GROUP_verdicts for a line for each of them. An entry that is kept in both
sizes shows the full one. Results of a GPU are in the summary and under `gpu`.
"""

import argparse
import csv
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuro_cli.bench.table import markdown
from neuro_cli.reproduce.outputs import SUFFIXES
from neuro_cli.reproduce.results import RATIO, RowResult, counts, facts, hardware, ratio, shown, spread, table, verdict_words
from neuro_cli.reproduce.verdict import REFERENCE

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results"
# headlines on a page of docs, and the entries there, by how their names begin
GROUPS = {
    "speed": "nes_table",
    "memory": "nes_memory",
    "correlation": "nes_appendix",
    "scaling": "darwinn",
    "ensembles": "ensemble",
    "evolution": "distributed",
    "search": "search",
    "records": "records",
}
GPU = "gpu"
VERDICTS = "_verdicts"  # behind a group's name: counts in place of rows
BLOCK = re.compile(r"(<!-- results:(\w+) -->\n).*?(<!-- /results -->)", re.DOTALL)


NUMBERS = ("published", "measured", "least", "most")
FEW = 3  # rows of an entry without published values among the headlines


def read_results(path: Path) -> list[RowResult]:
    """Read the rows that ``neuro reproduce`` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        lines: list[dict[str, Any]] = list(csv.DictReader(file))
    return [RowResult(**line | {name: float(line[name]) if line[name] else None for name in NUMBERS}) for line in lines]


def pictures_in(folder: Path) -> list[Path]:
    """Return the pictures that the command left in an entry's folder; of one in several formats only the SVG."""
    pictures = sorted(path for path in folder.glob(f"{folder.name}_*") if path.suffix in SUFFIXES)
    return [path for path in pictures if path.suffix == ".svg" or path.with_suffix(".svg") not in pictures]


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="of neuro reproduce")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    if options.folder is not None and not options.check:
        keep(options.folder)
    stale = []
    for path in pages():
        text = path.read_text(encoding="utf-8")
        new = filled(text, path)
        if new != text and options.check:
            stale.append(path)
        elif new != text:
            path.write_text(new, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)}: its tables are not what docs/results says", file=sys.stderr)
    return 1 if stale else 0


def keep(folder: Path) -> None:
    """Copy the small files of every entry in ``folder``."""
    paths = sorted(folder.glob("*/*.csv"))
    paths = [path for path in paths if path.stem == path.parent.name]
    if not paths:
        sys.exit(f"{folder}: no entry of neuro reproduce there")
    for path in paths:
        results = read_results(path)
        place = KEPT / (GPU if on_gpu(results) else results[0].size)
        place.mkdir(parents=True, exist_ok=True)
        for suffix in (".csv", ".md", ".svg"):
            shutil.copyfile(path.with_suffix(suffix), place / f"{path.stem}{suffix}")
        for picture in pictures_in(path.parent):
            shutil.copyfile(picture, place / picture.name)


def pages() -> list[Path]:
    """The files that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(KEPT.glob("*.md"))]


def filled(text: str, path: Path) -> str:
    """Return ``text`` of the file ``path`` with every table rewritten from docs/results."""
    return BLOCK.sub(lambda match: f"{match[1]}{block(match[2], path)}\n{match[3]}", text)


def block(name: str, path: Path) -> str:
    """Return the text between the marks of ``name`` in the file ``path``."""
    kept = {file: read_results(file) for file in sorted(KEPT.glob("*/*.csv"), key=lambda file: (file.stem, file.parent.name))}
    if name == "summary":
        return summary({link(file, path): results for file, results in kept.items()})
    if name == GPU:
        return headlines({link(file, path): results for file, results in kept.items() if file.parent.name == GPU})
    best: dict[str, Path] = {}
    for file in kept:  # "full" comes before "quick"
        if file.parent.name != GPU:
            best.setdefault(file.stem, file)
    group = name.removesuffix(VERDICTS)
    if group in GROUPS:
        entries = {link(file, path): kept[file] for stem, file in best.items() if stem.startswith(GROUPS[group])}
        return summary(entries) if name.endswith(VERDICTS) else headlines(entries)
    results: list[RowResult] = kept[best[name]]
    return f"{table(results)}\n\n{facts(results)}"


def link(file: Path, page: Path) -> str:
    """Return the path from a page to the text about a kept file."""
    return os.path.relpath(file.with_suffix(".md"), page.parent)


if __name__ == "__main__":
    sys.exit(main())
