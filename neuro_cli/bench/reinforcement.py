"""``neuro bench reinforcement``: minutes to a mean return, by seed passing, evolution strategies over MPI, and DDPG.

Columns: ``dises`` is Algorithm 1 of "Distributed Evolution", ``evolve`` seed passing by linear combinations, ``openai_es`` and
``ars`` run over MPI, ``ddpg`` is that of stable-baselines3. The curve of every trial is written next to the results.

Every trial (task, column, seed) is a command of its own under one stopwatch (:mod:`neuro_cli.bench.stopwatch`). The goal is
reached at the first evaluation with such a mean over test episodes; afterwards the policy plays as many other episodes (its
fresh return), since a first passage favours lucky evaluations.

    neuro bench reinforcement reinforcement.only=[lunar_lander] reinforcement.columns=[openai_es] reinforcement.seeds=[1,2,3]
"""

import csv
import importlib.util
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuro_cli.bench.checks import filled_list, integers
from neuro_cli.bench.reinforcement_curves import plot
from neuro_cli.bench.returns import fresh_return
from neuro_cli.bench.stopwatch import Evaluation, Timed, timed
from neuro_cli.bench.table import append_row, show
from neuro_cli.bench.trials import Row, Trial, rows_of_trials
from neuro_cli.bench.workers.ddpg import FRESH, load_library
from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError, UserError, only_warned
from neuro_cli.core.install import install
from neuro_cli.core.metric import RETURN
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.runner.load import load_model, read_checkpoint, read_config

COLUMNS = ("dises", "evolve", "openai_es", "ars", "ddpg")
SEED_PASSING = ("dises", "evolve")
SETTINGS, THRESHOLDS = ("tuned", "common"), ("ours", "registered")
IDENTITY = ("task", "column", "seed", "goal", "budget_minutes", "episodes", "command")
CURVE = (*IDENTITY, "minute", "steps", RETURN.name)
FIELDS = (*IDENTITY, "ended", "minutes", "best_return", "fresh_return", "looks", "steps", "machine")
CURVES = "returns"  # name of the picture of this command's trials, in the run folder
NEVER = 1_000_000  # generations; the budget ends a run before


def bench_reinforcement(config: dict[str, Any], run: Path) -> None:
    """Run the trials missing from the results, draw them all, print the table; rows are added to ``reinforcement.results``."""
    node = config["reinforcement"]
    results, planned = Path(node["results"]), plan(node)
    threads = integer("reinforcement.workers", node["workers"], 1)
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
        plot([trial.identity for trial in planned], _looks(curves), run / CURVES)
    published = {task: settings["published"] for task, settings in node["tasks"].items()}
    title = (
        f"minutes to a mean return over {node['episodes']} fresh episodes, {threads} workers; median over seeds (least to most)"
    )
    show(title, HEAD, table(rows, published), threads, results)


def plan(node: dict[str, Any]) -> list[Trial]:
    """Return the trials, task by task, column by column. Raises ConfigError."""
    tasks = node["tasks"] if node["only"] is None else node["only"]
    seeds = integers("reinforcement.seeds", node["seeds"], 0, 2**64 - 1)
    key = "reinforcement.columns"
    columns = [one_of(key, column, COLUMNS) for column in filled_list(key, node["columns"])]
    episodes = integer("reinforcement.episodes", node["episodes"], 1)
    cells: list[Trial] = []
    for task in tasks:
        one_of("reinforcement.only", task, tuple(node["tasks"]))
        goal, minutes = _goal(node, task), _budget(node, task)
        for column in columns:
            if settings_of(node, task).get(column) is None:
                continue
            for seed in seeds:
                program = _program(node, task, column, seed, goal)
                cells.append(Trial(IDENTITY, task, column, seed, RETURN, goal, minutes, program, episodes))
    if not cells:
        raise ConfigError("reinforcement.columns", columns, "none of these has settings in the tasks chosen")
    return cells


def settings_of(node: dict[str, Any], task: str) -> dict[str, Any]:
    """Return the settings of each column for ``task``: its own, or those common to all tasks. Raises ConfigError."""
    tuned = one_of("reinforcement.setting", node["setting"], SETTINGS) == "tuned"
    chosen: dict[str, Any] = node["tasks"][task] if tuned else node["common"]
    return chosen


def _goal(node: dict[str, Any], task: str) -> float:
    ours = one_of("reinforcement.threshold", node["threshold"], THRESHOLDS) == "ours"
    name = "goal" if ours else "registered"
    return number(f"reinforcement.tasks.{task}.{name}", node["tasks"][task][name])


def _budget(node: dict[str, Any], task: str) -> float:
    if node["minutes"] is not None:
        return number("reinforcement.minutes", node["minutes"], above=0.0)
    return number(f"reinforcement.tasks.{task}.minutes", node["tasks"][task]["minutes"], above=0.0)


def _program(node: dict[str, Any], task: str, column: str, seed: int, goal: float) -> tuple[str, ...]:
    """Return the command of a trial without the Python and the run folder."""
    settings, workers = settings_of(node, task), node["workers"]
    if column == "ddpg":
        options = {**settings[column].get("options", {}), **node["tasks"][task].get("continuous", {})}
        setting = {
            "task": {**node["tasks"][task]["task"], "options": options},
            "ddpg": node["ddpg"] | {key: value for key, value in settings[column].items() if key != "options"},
            "seed": seed,
            "goal": goal,
            "episodes": node["episodes"],
            "workers": workers,
        }
        return ("neuro_cli.bench.workers.ddpg", json.dumps(setting))
    every = node["evaluate_every"]
    looks = () if every is None else (f"evaluate.every={integer('reinforcement.evaluate_every', every, 1)}",)
    common = (
        *looks,
        f"seed={seed}",
        f"task.evaluation_episodes={node['episodes']}",
        f"stop.metric={RETURN.name}",
        f"stop.at={goal:g}",
    )
    place = () if any(str(text).startswith(("task=", "experiment=")) for text in settings[column]) else (f"task={task}",)
    if column in SEED_PASSING:
        world: tuple[str, ...] = ("evolve", f"task={task}", f"cluster.local_peers={workers}")
    else:
        world = ("train", f"ranks={workers}", "distribution=replicated", *place)
    return ("neuro_cli", *world, f"generations={NEVER}", f"checkpoint.every={NEVER}", *map(str, settings[column]), *common)


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
    values = (seen.ended, f"{_minutes(seen):.3f}", best, _fresh(cell, folder), len(seen.evaluations), round(seen.steps))
    return cell.identity | dict(zip(FIELDS[len(IDENTITY) :], map(str, values), strict=False)), seen.evaluations


def _minutes(seen: Timed) -> float:
    return seen.evaluations[-1].minutes if seen.ended == "goal" else seen.minutes


def _fresh(cell: Trial, folder: Path) -> float:
    """Return the last policy's mean return over episodes that no evaluation used; nan where the run left no policy."""
    if cell.setting == "ddpg":
        fresh = folder / FRESH
        return float(json.loads(fresh.read_text())["fresh_return"]) if fresh.exists() else math.nan
    if not CheckpointStore(folder, keep=1).generations():  # a trial killed in an iteration longer than the patience has none
        return math.nan
    config = read_config(folder, trust=None)  # the folder was made by our own command
    model = load_model(folder, config, read_checkpoint(folder, config, None))
    return fresh_return(config["task"], model, cell.seed, cell.episodes or 1)


def curves_of(results: Path) -> Path:
    """Return the path of the file with the evaluations of all trials, next to the results."""
    return results.with_name(f"{results.stem}_curves.csv")


def _looks(curves: Path) -> list[Row]:
    """Return the evaluations of all trials so far, without a torn last line."""
    if not curves.exists():
        return []
    with curves.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row[RETURN.name]]


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
