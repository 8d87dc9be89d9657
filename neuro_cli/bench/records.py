"""``neuro bench records``: seconds from the start of a command to a goal, a setting against the one before it, over seeds.

Every trial (record, setting, seed) is a command of its own under one stopwatch (:mod:`neuro_cli.bench.stopwatch`), which ends it
at the first evaluation that reaches the goal, or when the minutes of the record are over.

    neuro bench records records.only=[mnist_98] records.root=data
"""

import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuro_cli.bench.config import BenchConfig, filled_list, integers
from neuro_cli.bench.stopwatch import Trial, rows_of_trials, timed
from neuro_cli.bench.table import show, write
from neuro_cli.core.checks import number, one_of
from neuro_cli.core.metric import HIGHER, LOWER, Metric
from neuro_cli.runner.config import BITS_64, choice, key, or_none, positive, section

IDENTITY = ("record", "setting", "seed", "goal", "limit_minutes", "command")
FIELDS = (*IDENTITY, "ended", "seconds", "best", "evaluations", "machine")
TABLE = "records.csv"  # name of the table over seeds, in the run folder
HEAD = ("record", "setting", "reached", "seconds", "best", "p")


@dataclass(frozen=True)
class Goal:
    """Goal ``records.goals.NAME``: the value of a metric within minutes, and overrides of ``neuro train`` by setting."""

    metric: str = key()
    better: str = key(choice(HIGHER, LOWER))
    at: float = key(number)
    minutes: float = key(positive)
    settings: dict[str, list[Any]] = key()


@dataclass(frozen=True)
class Records:
    results: str = key()
    only: list[str] | None = key(or_none(filled_list))
    seeds: list[int] = key(integers(0, BITS_64))
    minutes: float | None = key(or_none(positive))
    root: str | None = key()
    more: list[Any] = key()
    goals: dict[str, Any] = key()


def bench_records(config: BenchConfig, run: Path) -> None:
    """Run the trials missing from ``records.results``, add a row for each at once, and print the table over all."""
    own = config.own(Records, "records")
    results, planned = Path(own.results), plan(own)
    rows = rows_of_trials("records.results", results, planned, FIELDS, None, lambda trial, name: _play(trial, run / name))
    lines = list(table(planned, rows))
    write(run / TABLE, lines, None)
    title = "seconds to a goal, start included: median over seeds (least to most); p: against the setting before, one-sided"
    show(title, HEAD, [_words(line) for line in lines], None, results)


def plan(own: Records) -> list[Trial]:
    """Return the trials, record by record, setting by setting. Raises ConfigError."""
    chosen = list(own.goals) if own.only is None else own.only
    for name in chosen:
        one_of("records.only", name, tuple(own.goals))
    return [trial for name in chosen for trial in _trials(own, name)]


def _trials(own: Records, name: str) -> Iterator[Trial]:
    goal = section(Goal, own.goals[name], f"records.goals.{name}.")
    metric = Metric(goal.metric, goal.metric, better=goal.better)
    root = [] if own.root is None else [f"task.root={own.root}"]
    ends = (f"stop.metric={metric.name}", f"stop.at={goal.at:g}", *root, *map(str, own.more))
    for setting, overrides in goal.settings.items():
        for seed in own.seeds:
            program = ("neuro_cli", "train", *map(str, overrides), *ends, f"seed={seed}")
            yield Trial(IDENTITY, name, setting, seed, metric, goal.at, own.minutes or goal.minutes, program)


def _play(trial: Trial, folder: Path) -> dict[str, str]:
    """Run a trial and return its row."""
    command = [sys.executable, "-P", "-m", *trial.program, f"hydra.run.dir={folder}"]
    seen = timed(command, folder, trial.metric, trial.goal, 60 * trial.minutes)
    values = [evaluation.value for evaluation in seen.evaluations]
    best = (max if trial.metric.better == HIGHER else min)(values, default=math.nan)
    row = {"ended": seen.ended, "seconds": f"{60 * seen.spent:.1f}", "best": f"{best:.6g}", "evaluations": str(len(values))}
    return trial.identity | row


def table(planned: Sequence[Trial], rows: Sequence[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield the line of every setting. ``seconds``: infinite where the median seed did not reach the goal, and the limit of each
    seed where none did; ``p_value``: see there.
    """
    trials = {(trial.task, trial.setting): trial for trial in planned}
    before: dict[str, list[dict[str, str]]] = {}
    for (record, setting), trial in trials.items():
        own = [row for row in rows if (row["record"], row["setting"]) == (record, setting)]
        seconds, best = _seconds(own), [float(row["best"]) for row in own]
        reached = sum(map(math.isfinite, seconds))
        yield {
            "record": record,
            "setting": setting,
            "goal": trial.goal,
            "limit_minutes": trial.minutes,
            "seeds": len(own),
            "reached": reached,
            "seconds": statistics.median_high(seconds) if reached else 60 * trial.minutes,
            "least_seconds": min(seconds),
            "most_seconds": max(seconds),
            "best_mean": statistics.fmean(best),
            "best_least": min(best),
            "best_most": max(best),
            "p_value": p_value(own, before[record], trial.metric.better) if record in before else None,
        }
        before[record] = own


def _seconds(rows: Sequence[dict[str, str]]) -> list[float]:
    return [float(row["seconds"]) if row["ended"] == "goal" else math.inf for row in rows]


def p_value(rows: Sequence[dict[str, str]], before: Sequence[dict[str, str]], better: str) -> float | None:
    """Return the one-sided p-value of the Mann-Whitney test that ``rows`` are faster than ``before``.

    It is the share of arrangements of the values that are as good, with ties too; of 200,000 random ones where there are more.
    A seed that did not reach the goal is slower than any that did; where none did, the best values are compared. None where a
    seed has no value: it was not evaluated in time.
    """
    ours, theirs = _seconds(rows), _seconds(before)
    if any(map(math.isfinite, ours + theirs)):
        last = 1.0 + max(filter(math.isfinite, ours + theirs))  # the test takes no infinity, and only ranks count
        ours, theirs = ([min(second, last) for second in seconds] for seconds in (ours, theirs))
        return _mann_whitney(ours, theirs, "less")
    values, others = ([float(row["best"]) for row in listed] for listed in (rows, before))
    if any(map(math.isnan, values + others)):
        return None
    return _mann_whitney(values, others, "greater" if better == HIGHER else "less")


def _mann_whitney(values: list[float], others: list[float], alternative: str) -> float:
    from scipy.stats import PermutationMethod, mannwhitneyu

    # scipy approximates p where values tie, as of two seeds that miss the goal: 0.032 for 1 of 20 arrangements
    counted = PermutationMethod(n_resamples=200_000, random_state=0)
    return float(mannwhitneyu(values, others, alternative=alternative, method=counted).pvalue)


def _words(line: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a line for the terminal."""
    if line["reached"] and math.isfinite(line["seconds"]):
        most = f"{line['most_seconds']:.0f}" if math.isfinite(line["most_seconds"]) else "not reached"
        seconds = f"{line['seconds']:.0f} ({line['least_seconds']:.0f} to {most})"
    else:
        seconds = f"not reached in {60 * line['limit_minutes']:.0f}"
    best = f"{line['best_mean']:.4g} ({line['best_least']:.4g} to {line['best_most']:.4g})"
    p = "" if line["p_value"] is None else f"{line['p_value']:.2g}"
    return f"{line['record']} to {line['goal']:g}", line["setting"], f"{line['reached']} of {line['seeds']}", seconds, best, p
