"""Display of a cluster's peers, leader and progress on the terminal."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from neuro_cli.evolve.network.names import address_of
from neuro_cli.run_folder.progress import Progress

REDRAW = 0.25  # seconds between two drawings


class ClusterDisplay(Progress):
    """Progress as a table redrawn in place on a terminal, as occasional lines elsewhere."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        console = console or Console()
        self._drawn = float("-inf")
        self._status: dict[str, Any] = {}
        self._live: Live | None = None
        self._row: dict[str, Any] = {}
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(console=console, auto_refresh=False)
            console = Console(quiet=True)
        super().__init__(total, 0, console)

    def __enter__(self) -> "ClusterDisplay":
        super().__enter__()
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        if self._live is not None:
            if self._status:  # the last row is drawn, however soon it comes
                self._live.update(picture(self._status, self._below()), refresh=True)
            self._live.stop()
        super().__exit__(*details)

    def update(self, row: dict[str, Any], tested: str = "") -> None:
        self._done = int(row["generation"]) - 1  # a newcomer does not begin at the first iteration
        if not self._row:
            self._start = self._done
        self._row = row
        super().update(row, tested)

    def show(self, status: dict[str, Any]) -> None:
        """Redraw the table, at most four times a second."""
        now, self._status = time.monotonic(), status
        if self._live is None or now - self._drawn < REDRAW:
            return
        self._drawn = now
        self._live.update(picture(status, self._below()), refresh=True)

    def _below(self) -> str:
        return self._text(self._row) if self._row else "waiting for the cluster"


def picture(status: dict[str, Any], line: str) -> Group:
    """Return a table of peers above one line."""
    leader = status["leader"]
    best = status.get("best")
    title = f"iteration {status['iteration']}, term {status['term']}, leader {short(leader) if leader else 'none'}"
    table = Table(
        "peer", "address", "role", "iterations", "last seen (s)", title=title + (f", best fitness {best:.4g}" if best else "")
    )
    for peer in status["members"]:
        mine = peer == status["me"]
        age = status["ages"].get(peer)
        role = "leader" if peer == leader else "peer"
        has = status["iteration"] if mine else status.get("progress", {}).get(peer, "")
        word = "this one" if mine else "never" if age is None else f"{age:.1f}"
        table.add_row(short(peer), address_of(peer), role, str(has), word)
    return Group(table, Text(line))


def short(peer: str) -> str:
    return peer[:6]
