"""List of entries with title, source and duration. Imports no torch, so that it appears at once."""

from collections.abc import Sequence
from textwrap import shorten

from rich.markup import escape

from neuro_cli.core.tables import print_table
from neuro_cli.reproduce.entry import SIZES, Entry

SHOWN = 70  # most characters of a source, which begins with the paper


def show_entries(entries: Sequence[Entry]) -> None:
    """Print the list of entries."""
    minutes = tuple(f"{size}, minutes" for size in SIZES)
    rows = []
    for entry in entries:
        times = [f"{entry.minutes[size]:g}" for size in SIZES]
        rows.append((entry.name, *times, escape(entry.title), escape(shorten(entry.source, SHOWN, placeholder=" ..."))))
    print_table(("entry", *minutes, "what", "source"), rows, numbers=minutes)
    print("neuro reproduce table=ENTRY size=quick|full, or table=all; neuro reproduce --help says more")
