"""Progress of a run on one line: a bar on a terminal or in a notebook, occasional plain lines elsewhere."""

import os
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neuro_cli.core.errors import printable
from neuro_cli.core.messages.verbosity import quiet

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINE_SECONDS = 2.0  # seconds between two plain lines
WIDTH, LEAST, MOST = 16, 10, 40  # characters of the bar: in a notebook; on a terminal at least and at most
BAR_SECONDS = 0.2  # seconds between two drawings of the bar
TERMINALS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")  # variables that make rich treat an output as a terminal


class Progress:
    """Display of generations ``start`` + 1 to ``total``; :meth:`update` takes the metrics of each.

    Plain lines come at most every 2 seconds, and for the first row, the last, and each with a new evaluation.
    """

    def __init__(
        self,
        total: int,
        start: int = 0,
        console: "Console | None" = None,
        plain: bool = False,
        limit: float | None = None,
        silent: bool = False,
    ) -> None:
        """Set up a display; ``plain``: lines only; ``console``: replaces the process's; ``limit``: seconds of the session."""
        self._limit, self._silent = limit, silent or quiet()
        self._total, self._start, self._done = total, start, start
        self._first = True  # a peer of a cluster may begin at any generation
        self._tested = ""
        self._printed = True
        self._line = ""
        self._bar: Bar | None = None
        self._task: TaskID
        self._cell: Any = None
        self._console = console
        if console is None and not self._silent and not plain and _drawn_on():
            from rich.console import Console

            self._console = Console()
        if self._console is not None and not self._silent:
            self._begin(self._console)

    def _begin(self, console: "Console") -> None:
        """Set up the bar of a terminal or of a notebook."""
        if console.is_jupyter:
            # rich's own bar would leave a line for each drawing without ipywidgets
            from IPython.display import display  # every notebook has IPython

            self._cell = display({"text/plain": self._bar_text(self._start)}, raw=True, display_id=True)
        elif console.is_terminal and not console.is_dumb_terminal:
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar
            from rich.table import Column

            # update draws: a thread that draws would take the interpreter from the members' threads
            self._column = BarColumn(bar_width=LEAST)
            text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
            # a redirected standard error stays redirected
            redirected = sys.stderr.isatty()
            self._bar = Bar(self._column, text, console=console, auto_refresh=False, redirect_stderr=redirected)
            self._task = self._bar.add_task(f"{self._start}/{self._total}", total=self._total, completed=self._start)

    def __enter__(self) -> "Progress":
        self._begun = time.monotonic()
        self._last = float("-inf")
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()  # stop draws once more
        elif self._cell is not None:
            self._show_cell()
        elif not self._printed:
            self._print()

    def update(self, row: dict[str, Any], tested: str = "") -> None:
        """Show one more generation with its ``row`` of ``metrics.csv``; ``tested``: its test evaluation in words."""
        self._done = int(row["generation"])
        if self._first:
            self._first, self._start = False, self._done - 1
        self._tested = tested or self._tested
        self._line, self._printed = "  ".join(self._parts(row)), False
        now = time.monotonic()
        if self._bar is not None:
            width = self._bar.console.width
            text = self._fitting(row, width)
            self._column.bar_width = min(MOST, max(0, width - len(text) - 1))
            self._bar.update(self._task, completed=self._done, description=text)
            if now - self._last >= BAR_SECONDS:
                self._last = now
                self._bar.refresh()
        elif self._cell is not None:
            if now - self._last >= BAR_SECONDS:
                self._last = now
                self._show_cell()
        elif tested or self._done == self._total or now - self._last >= LINE_SECONDS:
            self._last = now
            self._print()

    def _print(self) -> None:
        self._printed = True
        self.say(self._line)

    def _show_cell(self) -> None:
        self._cell.update({"text/plain": f"{self._bar_text(self._done)} {self._line}"}, raw=True)

    def _bar_text(self, done: int) -> str:
        filled = WIDTH * done // self._total
        return "█" * filled + "░" * (WIDTH - filled)

    def say(self, text: str) -> None:
        """Print a line of its own, above the progress bar."""
        if self._silent:
            return
        text = printable(text)
        if self._console is not None:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, flush=True)

    def _parts(self, row: dict[str, Any]) -> list[str]:
        """Return all parts of the line: generation, fitness, the last test, candidates per second, time to the end."""
        peers = row.get("peers")
        by = "" if peers is None else f" by {peers:.0f} peer{'s' * (peers != 1)}"
        parts = [f"generation {self._done}/{self._total}{by}", f"fitness {row['fitness_mean']:.4g}"]
        if self._tested:
            parts.append(self._tested)
        parts.append(f"{row['candidates_per_second']:.4g} candidates/s")
        if self._done < self._total:
            spent = time.monotonic() - self._begun
            left = spent / (self._done - self._start) * (self._total - self._done)
            left = left if self._limit is None else min(left, max(0.0, self._limit - spent))
            parts.append(f"ETA {timedelta(seconds=round(left))}")
        return parts

    def _fitting(self, row: dict[str, Any], width: int) -> str:
        """Return the parts that leave room for the bar, or fitness and the time to the end in its place."""
        parts = self._parts(row)
        first, fitness, rate = parts[0].removeprefix("generation "), parts[1], f"{row['candidates_per_second']:.4g}/s"
        tested, left = [self._tested] * bool(self._tested), parts[-1:] if self._done < self._total else []
        choices = (
            parts,
            [first, fitness, *tested, rate, *left],
            [first, fitness, *tested, *left],
            [first, *(tested or [fitness]), *left],
            [first, fitness, *left],
        )
        lines = ["  ".join(choice) for choice in choices]
        barred = [line for line in lines if len(line) + 1 + LEAST <= width]
        narrow = [line for line in (lines[-1], "  ".join([first, *left])) if len(line) + 1 <= width]
        return next(iter((*barred, *narrow)), first)


def _drawn_on() -> bool:
    """Return whether standard output may be a terminal or a notebook; elsewhere rich is of no use and stays unloaded."""
    if any(os.environ.get(name) for name in TERMINALS) or "IPython" in sys.modules:
        return True
    return sys.stdout is not None and sys.stdout.isatty()
