"""List of entries with title, source and duration. Imports no torch, so that it appears at once."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neuro_cli.reproduce.entry import SIZES, Entry

WIDTH = 160  # width of a table without a terminal


def show_entries(entries: Sequence[Entry]) -> None:
    """Print the list of entries."""
    table = Table("entry", "what", "source", *(f"{size}, minutes" for size in SIZES))
    for entry in entries:
        source = entry.source.partition(". ")[0]
        table.add_row(entry.name, escape(entry.title), escape(source), *(f"{entry.minutes[size]:g}" for size in SIZES))
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    console.print(table)
    print("neuro reproduce table=ENTRY size=quick|full, or table=all; neuro reproduce --help says more")
