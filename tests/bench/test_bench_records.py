"""Records: the plan of the trials, the table over seeds and its p-values; slow: real trials, stopped and gone on with."""

import itertools
import math

import pytest
from support.configs import composed
from support.inside import neuro_inside, well
from support.tables import rows_of as table_rows

from neuro_cli.bench.records import FIELDS, IDENTITY, Records, p_value, plan, table
from neuro_cli.bench.stopwatch import Trial
from neuro_cli.core.metric import Metric
from neuro_cli.runner.config import section

ACCURACY = Metric("test_accuracy", "test accuracy")
LOSS = Metric("test_loss", "test loss", better="lower")


def settings(**changes):
    return section(Records, composed(verb="bench")["records"] | changes, "records.")


def rows_of(setting: str, seconds: list[float], best: float = 0.9, metric: Metric = ACCURACY):
    """Trials and their rows; infinity: not reached."""
    trials = [Trial(IDENTITY, "r", setting, seed, metric, 0.95, 3.0, ("neuro_cli", setting)) for seed in range(len(seconds))]
    values = [("budget", "180.0") if math.isinf(second) else ("goal", f"{second}") for second in seconds]
    ends = [(ended, second, f"{best + number / 100}", "4", "here") for number, (ended, second) in enumerate(values)]
    names = FIELDS[6:]
    return trials, [trial.identity | dict(zip(names, end, strict=True)) for trial, end in zip(trials, ends, strict=True)]


def test_every_goal_is_a_list_of_commands_that_compose():
    trials = plan(settings(root="somewhere", more=["threads=1"], only=["mnist_98", "int8"]))
    assert [trial.seed for trial in trials] == [1, 2, 3, 4, 5] * (len(trials) // 5)
    for trial in plan(settings(seeds=[3])):
        config = composed(*trial.program[2:], verb="train")
        assert (config["seed"], config["stop"]["metric"], config["stop"]["at"]) == (3, trial.metric.name, trial.goal)
    assert all({"task.root=somewhere", "threads=1"} <= set(trial.program) for trial in trials)


@pytest.mark.parametrize("first", range(1, 9))
def test_the_p_value_is_the_share_of_arrangements_as_good(first):
    """Against a count over all ways to give ten ranks to two settings of five seeds."""
    ours = {first, 2, 4, 9, 10} if first in (1, 3, 5, 6, 7, 8) else {first, 1, 5, 6, 7}
    theirs = set(range(1, 11)) - ours

    def wins(mine: set[int]) -> int:
        return sum(a < b for a in mine for b in set(range(1, 11)) - mine)

    ways = [wins(set(chosen)) for chosen in itertools.combinations(range(1, 11), 5)]
    _, mine = rows_of("new", [float(rank) for rank in sorted(ours)])
    _, before = rows_of("old", [float(rank) for rank in sorted(theirs)])
    assert p_value(mine, before, "higher") == pytest.approx(sum(way >= wins(ours) for way in ways) / len(ways))


@pytest.mark.parametrize("seeds", [3, 5])
def test_the_p_value_counts_arrangements_with_ties_too(seeds):
    """No seed before reached the goal, so all of them tie: one arrangement is as good."""
    _, before = rows_of("old", [math.inf] * seeds)
    for seconds in ([10.0 + seed for seed in range(seeds)], [10.0] * seeds):
        _, rows = rows_of("new", seconds)
        assert p_value(rows, before, "higher") == pytest.approx(1 / math.comb(2 * seeds, seeds))


@pytest.mark.parametrize(("metric", "best", "wins"), [(ACCURACY, 0.99, True), (ACCURACY, 0.5, False), (LOSS, 0.5, True)])
def test_where_no_seed_reached_the_goal_the_best_values_are_compared(metric, best, wins):
    _, before = rows_of("old", [math.inf] * 5, 0.9, metric)
    _, rows = rows_of("new", [math.inf] * 5, best, metric)
    assert p_value(rows, before, metric.better) == pytest.approx(1 / 252 if wins else 1.0)
    rows[0]["best"] = "nan"
    assert p_value(rows, before, metric.better) is None


def test_a_seed_that_did_not_reach_the_goal_is_slower_than_any_that_did():
    old, before = rows_of("old", [100.0, 120.0, math.inf])
    new, rows = rows_of("new", [90.0, 80.0, 170.0])
    first, second = table([*old, *new], [*before, *rows])
    assert (first["reached"], first["seconds"], first["most_seconds"], first["p_value"]) == (2, 120.0, math.inf, None)
    assert (second["reached"], second["seconds"], second["least_seconds"]) == (3, 90.0, 80.0)
    assert second["p_value"] == pytest.approx(4 / 20)  # 7 of 9 pairs are won: of 20 arrangements, four win as many
    assert second["best_mean"] == pytest.approx(0.91)


def test_where_no_seed_reached_the_goal_the_line_says_how_long_each_tried():
    [line] = table(*rows_of("new", [math.inf] * 3))
    assert (line["reached"], line["seconds"], line["least_seconds"]) == (0, 180.0, math.inf)


@pytest.mark.slow
def test_trials_are_real_runs_and_a_second_command_makes_only_what_is_missing(tmp_path):
    line = ("bench", "records", "records.only=[digits_80]", f"records.results={tmp_path}/results.csv")
    for run, seeds in (("first", "[1]"), ("second", "[1,2]")):
        well(neuro_inside(*line, f"records.seeds={seeds}", "records.minutes=10", f"hydra.run.dir={run}", cwd=tmp_path))
    rows = table_rows(tmp_path / "results.csv")
    assert [(row["setting"], row["seed"]) for row in rows] == [
        ("weights", "1"), ("activation", "1"), ("weights", "2"), ("activation", "2"),
    ]  # fmt: skip
    assert all(row["ended"] == "goal" and float(row["best"]) >= 0.8 and 1 < float(row["seconds"]) < 600 for row in rows)
    made = {path.name for path in (tmp_path / "second").glob("digits*") if path.is_dir()}
    assert made == {"digits_80_activation_2", "digits_80_weights_2"}
