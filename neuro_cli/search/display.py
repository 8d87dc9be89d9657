"""Display of a search: an occasional line."""

import time
from datetime import timedelta
from typing import Any

from rich.console import Console

from neuro_cli.search.engine import Engine
from neuro_cli.strategy.space import text_of

LINE_SECONDS = 5.0  # seconds between two lines


class SearchDisplay:
    """Display of the state of ``engine``."""

    def __init__(self, engine: Engine, console: Console | None = None) -> None:
        self._engine = engine
        self._console = console or Console()
        self._begun_at, self._done_at = time.monotonic(), len(engine.archive.outcomes)
        self._told, self._told_at = "", float("-inf")

    def update(self, facts: dict[str, Any], last: bool = False) -> None:
        """Print the state if it is new, every 5 seconds and at the end; ``facts``: those of the pool."""
        line = self._line(facts)
        if line != self._told and (last or time.monotonic() - self._told_at >= LINE_SECONDS):
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
