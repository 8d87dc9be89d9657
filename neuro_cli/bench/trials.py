"""Trials: commands under a stopwatch, each a row of a CSV file that later commands continue."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from neuro_cli.bench.table import append_row, finished_rows, machine
from neuro_cli.core.metric import Metric

Row = dict[str, str]


@dataclass(frozen=True)
class Trial:
    """Trial of a setting with a seed. ``program``: arguments of ``python -m``; the run folder is added last.

    ``names``: columns of the cells that identify it in a table; ``episodes``: of an evaluation, where the table has them.
    """

    names: tuple[str, ...]
    task: str
    setting: str
    seed: int
    metric: Metric
    goal: float
    minutes: float
    program: tuple[str, ...]
    episodes: int | None = None

    @property
    def identity(self) -> Row:
        """Cells of the trial's row that identify it."""
        optional = () if self.episodes is None else (self.episodes,)
        values = (self.task, self.setting, self.seed, self.goal, self.minutes, *optional, shlex.join(self.program))
        return dict(zip(self.names, map(str, values), strict=True))


def rows_of_trials(
    key: str,
    results: Path,
    trials: Sequence[Trial],
    fields: Sequence[str],
    threads: int | None,
    play: Callable[[Trial, str], Row],
) -> list[Row]:
    """Return the rows of ``trials`` from the file ``results``; a trial without a row runs first, and adds its row at once.

    ``key``: of the file in the config; ``play``: of a trial and the name of its run folder. Raises UserError.
    """
    names = trials[0].names
    done = finished_rows(key, results, fields, names)
    for place, trial in enumerate(trials, 1):
        cells = tuple(trial.identity.values())
        if cells not in done:
            print(f"neuro: trial {place} of {len(trials)}: {trial.task}, {trial.setting}, seed {trial.seed}", flush=True)
            row = play(trial, f"{trial.task}_{trial.setting}_{trial.seed}") | {"machine": machine(threads)}
            append_row(results, row, fields)
            done[cells] = row
    return [done[tuple(trial.identity.values())] for trial in trials]
