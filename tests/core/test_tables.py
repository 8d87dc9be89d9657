"""Tables have no frame, and on a narrow terminal a row is a block of lines."""

import io

import pytest
from rich.console import Console

from neuro_cli.core.messages.tables import WIDTH, print_table, wide_console

COLUMNS = ("run", "state", "accuracy", "sigma")
ROWS = [("0", "finished", "0.91", "0.05"), ("1", "failed", "-", "0.1")]


def shown(width: int, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table on a terminal of so many characters a line."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    print_table(columns, rows, numbers=("accuracy",), console=console)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_wide_table_has_a_line_for_each_row():
    assert shown(80, COLUMNS, ROWS) == [
        "run  state     accuracy  sigma",
        "0    finished      0.91  0.05",
        "1    failed           -  0.1",
    ]


def test_a_narrow_terminal_shows_a_block_for_each_row():
    block = ["run       0", "state     finished", "accuracy  0.91", "sigma     0.05", ""]
    assert shown(40, COLUMNS, ROWS)[:5] == block
    assert shown(40, ("metric", "value"), [("loss", "2.3")]) == ["metric  value", "loss    2.3"]


def test_a_pipe_has_long_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert wide_console().width >= WIDTH
