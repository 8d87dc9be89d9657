"""Keeps the outcome of `neuro reproduce` in docs/results/SIZE/ (a GPU's in docs/results/gpu/), and its tables in README and docs.

    python scripts/results.py outputs/reproduce/STAMP     copy CSV, Markdown and pictures of its entries, then fill the tables
    python scripts/results.py                             fill the tables
    python scripts/results.py --check                     exit code 1 where a table is not what its file says

A table stands between `<!-- results:NAME -->` and `<!-- /results -->`. NAME is an entry, `summary` for a line for each kept file,
or one of GROUPS for the headlines of some entries. Where an entry is kept in both sizes, the full one is shown; what a GPU
gave stands in the summary and under `gpu`.
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from neuro_cli.reproduce.markdown import facts, headlines, on_gpu, summary, table
from neuro_cli.reproduce.outputs import pictures_in
from neuro_cli.reproduce.results import RowResult, read_results

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
BLOCK = re.compile(r"(<!-- results:(\w+) -->\n).*?(<!-- /results -->)", re.DOTALL)


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
    if name in GROUPS:
        return headlines({link(file, path): kept[file] for stem, file in best.items() if stem.startswith(GROUPS[name])})
    results: list[RowResult] = kept[best[name]]
    return f"{table(results)}\n\n{facts(results)}"


def link(file: Path, page: Path) -> str:
    """Return the path from a page to the text about a kept file."""
    return os.path.relpath(file.with_suffix(".md"), page.parent)


if __name__ == "__main__":
    sys.exit(main())
