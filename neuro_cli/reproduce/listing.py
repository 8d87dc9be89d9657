"""List of entries with title and duration. Imports no torch, so that it appears at once."""

from collections.abc import Sequence

from rich.markup import escape

from neuro_cli.core.tables import print_table
from neuro_cli.reproduce.entry import SIZES, Entry


def show_entries(entries: Sequence[Entry]) -> None:
    """Print the list of entries."""
    minutes = tuple(f"{size}, minutes" for size in SIZES)
    rows = [(entry.name, *(f"{entry.minutes[size]:g}" for size in SIZES), escape(entry.title)) for entry in entries]
    print_table(("entry", *minutes, "what"), rows, numbers=minutes)
    print("neuro reproduce table=ENTRY size=quick|full, or table=all; neuro reproduce --help says more")
