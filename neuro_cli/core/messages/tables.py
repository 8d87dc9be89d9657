"""Tables of text: columns, or on a narrow terminal a block of lines for each row."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 1000  # characters of a line that no terminal shows: a row stays a line
NARROW, FEW = 80, 3  # a terminal with shorter lines shows more than so many columns as blocks


def wide_console() -> "Console":
    """Return the console of the terminal; without a terminal, one with lines long enough for tables."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    return console


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    console: "Console | None" = None,
) -> "Console":
    """Print ``rows`` and return the console. Names and cells are rich's markup; ``numbers``: columns at the right edge."""
    console = console or wide_console()
    if console.width >= NARROW or len(columns) <= FEW:
        table = _table(header=True)
        for name in columns:
            if name in numbers:
                table.add_column(name, justify="right")
            else:
                table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return console
    for row in rows:
        block = _table(header=False)
        for name, cell in zip(columns, row, strict=True):
            block.add_row(name, cell)
        console.print(block)
        console.print()
    return console


def _table(header: bool) -> "Table":
    from rich.table import Table

    return Table(box=None, header_style="bold", pad_edge=False, show_header=header)
