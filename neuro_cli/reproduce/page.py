"""HTML page of all entries of a command, usable offline: figures inline, light and dark, wide and narrow."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from neuro_cli.core.version import __version__
from neuro_cli.reproduce.entry import Entry
from neuro_cli.reproduce.markdown import counts
from neuro_cli.reproduce.pictures import pictures_in
from neuro_cli.reproduce.results import RowResult, shown, spread
from neuro_cli.run_folder.checkpoint import write_atomically

PAGE = "index.html"


@dataclass(frozen=True)
class EntrySection:
    """Section of an entry with its results; ``figure``: its SVG; ``pictures``: those that its runs made."""

    entry: Entry
    results: Sequence[RowResult]
    figure: Markup
    pictures: Sequence[Markup]
    counts: str


def write_page(folder: Path, found: Sequence[tuple[Entry, Sequence[RowResult]]]) -> None:
    """Write ``folder``/index.html over the entries ``found``; their files are in ``folder``/NAME."""
    sections = [_section(entry, results, folder / entry.name) for entry, results in found]
    environment = Environment(loader=PackageLoader("neuro_cli.reproduce", "."), autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("page.html.j2")
    text = template.render(sections=sections, shown=shown, spread=spread, version=__version__)
    write_atomically(folder / PAGE, text.encode())


def _section(entry: Entry, results: Sequence[RowResult], folder: Path) -> EntrySection:
    figure = _inline(folder / f"{entry.name}.svg", entry.name)
    pictures = [_embedded(path) for path in pictures_in(folder)]
    return EntrySection(entry, results, figure, pictures, counts(results))


def _embedded(picture: Path) -> Markup:
    """Picture for the page, in the document itself."""
    if picture.suffix == ".svg":
        return _inline(picture, picture.stem)
    data = base64.b64encode(picture.read_bytes()).decode()
    return Markup('<img alt="{}" src="data:image/png;base64,{}">').format(picture.stem, data)


def _inline(svg: Path, name: str) -> Markup:
    """SVG element for the page; its ids get the entry's name, since all figures share one document."""
    text = svg.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    for pattern, replacement in ((r'\bid="', f'id="{name}-'), (r"url\(#", f"url(#{name}-"), (r'href="#', f'href="#{name}-')):
        text = re.sub(pattern, replacement, text)
    return Markup(text)  # our own file: matplotlib has escaped its text
