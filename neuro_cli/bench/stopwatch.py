"""Stopwatch for a command that trains and writes ``metrics.csv``, ended when an evaluation reaches the goal or time is up.

A command under the stopwatch is a trial: a row of a CSV file that later commands continue.

The clock is that of the watching process and begins with the command, so it includes start, imports, compilation and the
evaluations themselves, for every command.
"""

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from neuro_cli.bench.table import append_row, finished_rows, machine
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.process import last_line, start, stop
from neuro_cli.core.metric import Metric
from neuro_cli.logger.stored_rows import MetricsTail

POLL = 0.1  # seconds between two reads of metrics.csv; the resolution of the times
PATIENCE = 90.0  # seconds to end after a request: the current generation, a last evaluation, a checkpoint
TERMINAL = "terminal.txt"

Row = dict[str, str]


@dataclass(frozen=True)
class Evaluation:
    """Row of ``metrics.csv`` with a value of the metric; ``steps``: environment steps of the command so far."""

    minutes: float
    value: float
    steps: float


@dataclass
class Timed:
    """Timing of a command. ``ended``: goal | budget | itself; ``minutes``: until its end, or until it was asked to end."""

    evaluations: list[Evaluation] = field(default_factory=list)
    steps: float = 0.0
    minutes: float = 0.0
    ended: str = "itself"

    @property
    def spent(self) -> float:
        """Minutes of a timed command to the goal, else all."""
        return self.evaluations[-1].minutes if self.ended == "goal" else self.minutes


def timed(command: Sequence[str], folder: Path, metric: Metric, goal: float, budget: float) -> Timed:
    """Run ``command``, which writes ``folder``/metrics.csv, until ``metric`` is at ``goal`` or for ``budget`` seconds.

    Raises UserError with its last words when it fails.
    """
    seen, rows = Timed(), MetricsTail(folder / "metrics.csv")
    terminal = folder.with_name(f"{folder.name}.{TERMINAL}")  # next to the run folder, which the command creates itself
    terminal.parent.mkdir(parents=True, exist_ok=True)
    with terminal.open("wb") as output:
        begun = time.monotonic()
        process = start(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        while seen.ended == "itself":
            over = process.poll() is not None  # asked before the rows are read: none can come after that
            seen.minutes = (time.monotonic() - begun) / 60
            _note(seen, rows, metric, goal)
            if over:
                break
            if seen.ended == "itself" and seen.minutes * 60 >= budget:
                seen.ended = "budget"
            time.sleep(POLL)
    finally:
        asked = _end(process, PATIENCE if seen.ended == "goal" else 0.0)
    if process.returncode and not asked:
        message = last_line(terminal) or "no output"
        raise UserError(f"{' '.join(command[1:])}: exit code {process.returncode}: {message}")
    return seen


def _note(seen: Timed, rows: MetricsTail, metric: Metric, goal: float) -> None:
    """Add new rows; those after the goal do not count."""
    for row in rows.new():
        seen.steps += row.get("environment_steps") or 0
        if (value := row.get(metric.name)) is not None:
            seen.evaluations.append(Evaluation(seen.minutes, float(value), seen.steps))
            if metric.reached(seen.evaluations[-1].value, goal):
                seen.ended = "goal"
                return


def _end(process: subprocess.Popen[bytes], patience: float) -> bool:
    """Wait ``patience`` seconds for the process to end, as it does at the goal; then stop it. Return whether that was needed."""
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        stop(process, patience=PATIENCE)
        return True
    return False


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
