"""Display of a search: a table that is redrawn on a terminal, an occasional line elsewhere."""

import time
from datetime import timedelta
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from neuro_cli.search.engine import Engine
from neuro_cli.strategy.space import text_of

LINE_SECONDS = 5.0  # seconds between two plain lines
SHOWN = 8  # members of the population in the table


class SearchDisplay:
    """Display of the state of ``engine``."""

    def __init__(self, engine: Engine, console: Console | None = None) -> None:
        self._engine = engine
        self._console = console or Console()
        self._begun_at, self._done_at = time.monotonic(), len(engine.archive.outcomes)
        self._told, self._told_at = "", float("-inf")
        terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        # a refreshing thread would draw the engine while that changes
        self._live = Live(console=self._console, auto_refresh=False, transient=False) if terminal else None

    def __enter__(self) -> "SearchDisplay":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, facts: dict[str, Any], last: bool = False) -> None:
        """Show the state; ``facts``: those of the pool. Plain lines come every 5 seconds if there is news, and at the end."""
        line = self._line(facts)
        if self._live is not None:
            self._live.update(self._table(line, facts), refresh=True)
        elif line != self._told and (last or time.monotonic() - self._told_at >= LINE_SECONDS):
            self._told, self._told_at = line, time.monotonic()
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _line(self, facts: dict[str, Any]) -> str:
        engine = self._engine
        done = len(engine.archive.outcomes)
        parts = [f"generation {engine.strategy.generation}", f"{done}/{engine.trainings} candidates"]
        failed = sum(bool(outcome.error) for outcome in engine.archive.outcomes.values())
        if failed:
            parts.append(f"{failed} failed")
        best = engine.best(1)
        if best:
            parts.append(f"validation accuracy {best[0].fitness:.4f} by {text_of(best[0].module)}")
        parts.append(f"{facts.get('workers', 0)} workers")
        fresh = done - self._done_at
        if fresh and not engine.finished:
            pace = (time.monotonic() - self._begun_at) / fresh
            parts.append(f"ETA {timedelta(seconds=round(pace * (engine.trainings - done)))}")
        return "  ".join(parts)

    def _table(self, line: str, facts: dict[str, Any]) -> RenderableType:
        members = Table("population", "layers", "parameters", "accuracy", box=None, header_style="bold", pad_edge=False)
        for member in self._engine.strategy.members[:SHOWN]:
            row = (text_of(member.module), str(len(member.module)), f"{member.parameters:,}", f"{member.fitness:.4f}")
            members.add_row(*row)
        waiting = [text_of(module) for module in self._engine.under_way]
        counts = {key: value for key, value in facts.items() if isinstance(value, int)}
        pool = ", ".join(f"{value} {key}" for key, value in counts.items())
        return Group(Text(line), members, Text(f"pool: {pool}; under way: {'; '.join(waiting[:SHOWN])}", style="dim"))
