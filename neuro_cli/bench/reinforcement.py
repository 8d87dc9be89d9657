"""``neuro bench reinforcement``: minutes to a mean return, by seed passing, evolution strategies over MPI, and DDPG.

Columns: ``dises`` is Algorithm 1 of "Distributed Evolution", ``evolve`` seed passing by linear combinations, ``openai_es`` and
``ars`` run over MPI, ``ddpg`` is that of stable-baselines3. The curve of every trial is written next to the results.

Every trial (task, column, seed) is a command of its own under one stopwatch (:mod:`neuro_cli.bench.stopwatch`). The goal is
reached at the first evaluation with such a mean over test episodes; afterwards the policy plays as many other episodes (its
fresh return), since a first passage favours lucky evaluations.

    neuro bench reinforcement reinforcement.only=[lunar_lander] reinforcement.columns=[openai_es] reinforcement.seeds=[1,2,3]
"""

import importlib.util
import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig, filled_list, integers
from neuro_cli.bench.returns import fresh_return
from neuro_cli.bench.stopwatch import Evaluation, Row, Trial, rows_of_trials, timed
from neuro_cli.bench.table import append_row, show
from neuro_cli.bench.workers.ddpg import FRESH, load_library
from neuro_cli.core.checks import number, one_of
from neuro_cli.core.errors import ConfigError, UserError, only_warned
from neuro_cli.core.messages.install import install
from neuro_cli.core.metric import RETURN
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.run_folder.metrics import read_rows
from neuro_cli.run_folder.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, Line, Panel, draw
from neuro_cli.runner.config import BITS_64, bounded, choice, key, or_none, positive
from neuro_cli.runner.load import load_model, read_checkpoint, read_config

COLUMNS = ("dises", "evolve", "openai_es", "ars", "ddpg")
SEED_PASSING = ("dises", "evolve")
IDENTITY = ("task", "column", "seed", "goal", "budget_minutes", "episodes", "command")
CURVE = (*IDENTITY, "minute", "steps", RETURN.name)
FIELDS = (*IDENTITY, "ended", "minutes", "best_return", "fresh_return", "looks", "steps", "machine")
CURVES = "returns"  # name of the picture of this command's trials, in the run folder
COLOURS = {"dises": BLUE, "evolve": GREEN, "openai_es": VERMILION, "ars": PURPLE, "ddpg": ORANGE}
WIDE = 3  # panels side by side
NEVER = 1_000_000  # generations, more than the budget allows
Look = Mapping[str, str]


@dataclass(frozen=True)
class Reinforcement:
    results: str = key()
    only: list[str] | None = key()
    columns: list[str] = key(lambda key, names: [one_of(key, name, COLUMNS) for name in filled_list(key, names)])
    setting: str = key(choice("tuned", "common"))
    threshold: str = key(choice("ours", "registered"))
    minutes: float | None = key(or_none(positive))
    seeds: list[int] = key(integers(0, BITS_64))
    evaluate_every: int | None = key(or_none(bounded(1)))
    workers: int = key(bounded(1))
    episodes: int = key(bounded(1))
    common: dict[str, Any] = key()
    ddpg: dict[str, Any] = key()
    tasks: dict[str, Any] = key()

    def settings(self, task: str) -> dict[str, Any]:
        """Return the settings of each column for ``task``: its own, or those common to all tasks."""
        return self.tasks[task] if self.setting == "tuned" else self.common

    def goal(self, task: str) -> float:
        """Return the mean return that reinforcement must reach. Raises ConfigError."""
        name = "goal" if self.threshold == "ours" else "registered"
        return number(f"reinforcement.tasks.{task}.{name}", self.tasks[task][name])

    def budget(self, task: str) -> float:
        """Return the most minutes of a trial of reinforcement. Raises ConfigError."""
        return self.minutes or positive(f"reinforcement.tasks.{task}.minutes", self.tasks[task]["minutes"])


def bench_reinforcement(config: BenchConfig, run: Path) -> None:
    """Run the trials missing from the results, draw them all, print the table; rows are added to ``reinforcement.results``."""
    own = config.own(Reinforcement, "reinforcement")
    results, planned, threads = Path(own.results), plan(own), own.workers
    _check_packages({cell.setting for cell in planned})
    curves = curves_of(results)

    def play(trial: Trial, name: str) -> Row:
        row, evaluations = _play(trial, run / name)
        for evaluation in evaluations:
            values = (f"{evaluation.minutes:.3f}", round(evaluation.steps), evaluation.value)
            append_row(curves, trial.identity | dict(zip(CURVE[len(IDENTITY) :], map(str, values), strict=True)), CURVE)
        return row

    rows = rows_of_trials("reinforcement.results", results, planned, FIELDS, threads, play)
    with only_warned("plot"):
        plot([trial.identity for trial in planned], read_rows(curves), run / CURVES)
    published = {task: settings["published"] for task, settings in own.tasks.items()}
    title = f"minutes to a mean return over {own.episodes} fresh episodes, {threads} workers; median over seeds (least to most)"
    show(title, HEAD, table(rows, published), threads, results)


def plan(own: Reinforcement) -> list[Trial]:
    """Return the trials, task by task, column by column. Raises ConfigError."""
    for task in own.only or ():
        one_of("reinforcement.only", task, tuple(own.tasks))
    cells = [
        Trial(IDENTITY, task, column, seed, RETURN, own.goal(task), own.budget(task), program, own.episodes)
        for task in (own.tasks if own.only is None else own.only)
        for column in own.columns
        if own.settings(task).get(column) is not None
        for seed in own.seeds
        for program in [_program(own, task, column, seed)]
    ]
    if not cells:
        raise ConfigError("reinforcement.columns", own.columns, "none of these has settings in the tasks chosen")
    return cells


def _program(own: Reinforcement, task: str, column: str, seed: int) -> tuple[str, ...]:
    """Return the command of a trial without the Python and the run folder."""
    settings = own.settings(task)[column]
    if column == "ddpg":
        options = {**settings.get("options", {}), **own.tasks[task].get("continuous", {})}
        setting = {
            "task": {**own.tasks[task]["task"], "options": options},
            "ddpg": own.ddpg | {key: value for key, value in settings.items() if key != "options"},
            "seed": seed,
            "goal": own.goal(task),
            "episodes": own.episodes,
            "workers": own.workers,
        }
        return ("neuro_cli.bench.workers.ddpg", json.dumps(setting))
    looks = () if own.evaluate_every is None else (f"evaluate.every={own.evaluate_every}",)
    common = (
        *looks,
        f"seed={seed}",
        f"task.evaluation_episodes={own.episodes}",
        f"stop.metric={RETURN.name}",
        f"stop.at={own.goal(task):g}",
    )
    place = () if any(str(text).startswith(("task=", "experiment=")) for text in settings) else (f"task={task}",)
    if column in SEED_PASSING:
        world: tuple[str, ...] = ("evolve", f"task={task}", f"cluster.local_peers={own.workers}")
    else:
        world = ("train", f"ranks={own.workers}", "distribution=replicated", *place)
    return ("neuro_cli", *world, f"generations={NEVER}", f"checkpoint.every={NEVER}", *map(str, settings), *common)


def _check_packages(columns: set[str]) -> None:
    """Raise UserError for missing packages before the first trial runs, not after hours."""
    if "ddpg" in columns:
        load_library()
    if columns.intersection(SEED_PASSING) and importlib.util.find_spec("msgpack") is None:
        column = min(columns.intersection(SEED_PASSING))
        raise UserError(f"reinforcement.columns=[{column}]: msgpack is not installed: {install('evolve')}")
    if importlib.util.find_spec("gymnasium") is None:
        raise UserError(f"what=reinforcement: gymnasium is not installed: {install('rl')}")


def _play(cell: Trial, folder: Path) -> tuple[Row, list[Evaluation]]:
    """Run a trial and return its row and its evaluations."""
    last = str(folder) if cell.setting == "ddpg" else f"hydra.run.dir={folder}"
    seen = timed([sys.executable, "-P", "-m", *cell.program, last], folder, RETURN, cell.goal, 60 * cell.minutes)
    best = max((evaluation.value for evaluation in seen.evaluations), default=math.nan)
    values = (seen.ended, f"{seen.spent:.3f}", best, _fresh(cell, folder), len(seen.evaluations), round(seen.steps))
    return cell.identity | dict(zip(FIELDS[len(IDENTITY) :], map(str, values), strict=False)), seen.evaluations


def _fresh(cell: Trial, folder: Path) -> float:
    """Return the last policy's mean return over episodes that no evaluation used; nan where the run left no policy."""
    if cell.setting == "ddpg":
        fresh = folder / FRESH
        return float(json.loads(fresh.read_text())["fresh_return"]) if fresh.exists() else math.nan
    if not CheckpointStore(folder, keep=1).generations():  # a trial killed in an iteration longer than the patience has none
        return math.nan
    config = read_config(folder, trust=None)  # our own command wrote the folder
    model = load_model(folder, config, read_checkpoint(folder, config, None))
    return fresh_return(config["task"], model, cell.seed, cell.episodes or 1)


def curves_of(results: Path) -> Path:
    """Return the path of the file with the evaluations of all trials, next to the results."""
    return results.with_name(f"{results.stem}_curves.csv")


HEAD = ("task", "column", "reached", "minutes", "best evaluation", "fresh return", "million steps", "published")


def table(rows: Sequence[Row], published: dict[str, dict[str, float]]) -> list[tuple[str, ...]]:
    """Return a table with one line per task and column. ``published``: minutes by task and column.

    A seed that did not reach the goal counts as slower than any that did.
    """
    lines = []
    for task, column in dict.fromkeys((row["task"], row["column"]) for row in rows):
        own = [row for row in rows if (row["task"], row["column"]) == (task, column)]
        minutes = [float(row["minutes"]) if row["ended"] == "goal" else math.inf for row in own]
        reached = sum(map(math.isfinite, minutes))
        note = published.get(task, {}).get(column)
        lines.append(
            (
                f"{task} to {float(own[0]['goal']):g}",
                column + (" (continuous)" if '"continuous": true' in own[0]["command"] else ""),
                f"{reached} of {len(own)}",
                _middle(minutes, own),
                *(_spread(own, name, form) for name, form in (("best_return", ".0f"), ("fresh_return", ".0f"))),
                f"{statistics.median(float(row['steps']) for row in own) / 1e6:.2f}",
                "" if note is None else f"{note:g} min",
            )
        )
    return lines


def _middle(minutes: Sequence[float], own: Sequence[Row]) -> str:
    """Return the median if it is finite, else the time that was spent."""
    middle = statistics.median_high(minutes)
    if not math.isfinite(middle):
        tried = statistics.median(float(row["minutes"]) for row in own)
        return f"not reached in {tried:.1f}"
    most = f"{max(minutes):.2f}" if math.isfinite(max(minutes)) else "not reached"
    return f"{middle:.2f} ({min(minutes):.2f} to {most})"


def _spread(own: Sequence[Row], name: str, form: str) -> str:
    values = [float(row[name]) for row in own if row[name] != "nan"]
    if not values:
        return "no evaluation in time"
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def plot(trials: Sequence[Mapping[str, str]], looks: Iterable[Look], stem: Path) -> None:
    """Draw ``stem``.svg and .png. ``trials``: identities; ``looks``: rows of the curves' file, of other trials too."""
    curves: dict[tuple[str, ...], list[Look]] = {_key(trial): [] for trial in trials}
    names = list(trials[0])
    for look in looks:
        key = tuple(look[name] for name in names)
        if key in curves and look[RETURN.name]:  # a torn line has none
            curves[key].append(look)
    goals = dict.fromkeys((trial["task"], trial["goal"]) for trial in trials)
    panels = [
        _panel(*goal, [(trial, curves[_key(trial)]) for trial in trials if (trial["task"], trial["goal"]) == goal])
        for goal in goals
    ]
    draw(panels, stem, columns=min(WIDE, len(panels)))


def _panel(task: str, goal: str, looks: Sequence[tuple[Mapping[str, str], Sequence[Look]]]) -> Panel:
    """Return the curves of one goal's trials, with a dashed line at its height."""
    minutes = max(float(trial["budget_minutes"]) for trial, _ in looks) * 1.02
    lines = [
        Line(
            [float(look["minute"]) for look in some], [float(look[RETURN.name]) for look in some], trial["column"],
            COLOURS[trial["column"]], marker=".", width=1.1,
        )
        for trial, some in looks
    ]  # fmt: skip
    options = {"title": f"{task} to {float(goal):g}", "xlabel": "minutes", "ylabel": RETURN.label, "xlim": (0, minutes)}
    height = Line((0, minutes), [float(goal)] * 2, "goal", GREY, "--", width=0.9)
    return Panel([*lines, height], options, height=3.2)


def _key(trial: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(trial.values())
