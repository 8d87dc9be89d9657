"""A time limit gives schedules their end; the run's config has it, so that the bits repeat."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from support.inside import neuro_inside, well
from support.tables import rows_of

from neuro_cli.core.schedule import Schedule
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner import pace as pace_module
from neuro_cli.runner import stop_signals as stop_module
from neuro_cli.runner.config import PaceConfig
from neuro_cli.runner.pace import Pace

SETTING = ("population=4", "batch_size=8", "threads=1", "checkpoint.every=4", "checkpoint.keep=100", "evaluate.every=1000")


def ticking(monkeypatch, step: float) -> None:
    """Replace the clock of pace and stop by one that goes ``step`` seconds at each look."""
    clock = itertools.count()
    for module in (pace_module, stop_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock) * step))


def rates(run: Path) -> list[float]:
    return [float(row["rate"]) for row in rows_of(run / "metrics.csv")]


def digest(run: Path) -> str:
    return json.loads((run / "summary.json").read_text())["parameters_sha256"]


def test_the_end_is_where_the_pace_meets_the_limit(monkeypatch):
    ticking(monkeypatch, 1.0)
    falling, short, level = (
        Schedule("s", kind, 0.1, length) for kind, length in (("cosine", 900), ("linear", 9), ("constant", 900))
    )
    config = SimpleNamespace(pace=PaceConfig(measure=True), time_limit=100.0, generations=900)
    pace = Pace(config, [falling, short, level], 0.0)
    given = [(generation, pace.measured(generation, SingleProcess())) for generation in range(1, 20)]
    # the looks at generations 1 to 7 show 0 to 6 s, a second each; 6 s are beyond 5 % of the limit, and the rest fits 94 more
    since, end = 7, 7 + 94
    later = [(12, PaceConfig(True, (7, 12), (end, end)))]  # 11 s are beyond 10 %
    assert [entry for entry in given if entry[1] is not None] == [(since, PaceConfig(True, (since,), (end,))), *later]
    assert falling.factor(since - 1) == pytest.approx(1.0, abs=1e-3)
    assert falling.factor(end) == pytest.approx(0.1)
    assert short.factor(8) > 0.1
    assert level.factor(end) == 1.0


def test_the_pace_is_measured_again_as_generations_take_longer(monkeypatch):
    seconds = iter(itertools.accumulate([1.0] * 20 + [4.0] * 100))
    monkeypatch.setattr(pace_module, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    schedule = Schedule("s", "linear", 0.0, 10_000)
    config = SimpleNamespace(pace=PaceConfig(measure=True), time_limit=200.0, generations=10_000)
    pace = Pace(config, [schedule], 0.0)
    given, factors, generation = None, [], 0
    while pace._mark[1] <= 160.0 and generation < 65:
        factors.append(schedule.factor(generation))
        generation += 1
        given = pace.measured(generation, SingleProcess()) or given
    assert given.since == (11, 21, 26, 36, 56)  # after 5, 10, 20, 40 and 80 % of the limit
    assert given.end[0] == 11 + 189
    assert given.end[-1] == 56 + 9  # 36 s are left, of 4 s each
    assert all(before >= after for before, after in itertools.pairwise(factors))
    assert max(before - after for before, after in itertools.pairwise(factors)) < 0.05  # no leap
    assert schedule.factor(given.end[-1]) == 0.0
    # a resumed run has the same factors from its config alone
    again = Schedule("s", "linear", 0.0, 10_000)
    Pace(SimpleNamespace(pace=given, time_limit=None, generations=10_000), [again], 0.0)
    assert [again.factor(number) for number in range(len(factors))] == factors


def test_a_limit_that_fits_all_generations_changes_nothing_and_is_not_measured_again(monkeypatch):
    ticking(monkeypatch, 0.01)
    schedule = Schedule("s", "cosine", 0.1, 50)
    pace = Pace(SimpleNamespace(pace=PaceConfig(measure=True), time_limit=1.0, generations=50), [schedule], 0.0)
    given = [pace.measured(generation, SingleProcess()) for generation in range(1, 20)]
    assert [entry for entry in given if entry is not None] == [PaceConfig(measure=False)]
    assert schedule.factor(25) == pytest.approx(0.55)


def test_a_limited_run_ends_at_its_lowest_rate_and_its_config_repeats_it(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        ticking(patch, 0.01)
        done = neuro_inside("train", *SETTING, "generations=100000", "time_limit=1", "hydra.run.dir=limited", cwd=tmp_path)
    assert done.returncode == 0
    assert "pace.measure=false" in done.stderr
    run = tmp_path / "limited"
    values = rates(run)
    assert values[-1] == pytest.approx(0.1 * values[0], rel=0.1)
    pace = yaml.safe_load((run / ".hydra" / "config.yaml").read_text())["pace"]
    # the same generations from a checkpoint before the schedules had an end
    assert len(pace["since"]) > 1
    whole, before = digest(run), 4 * ((pace["since"][0] - 1) // 4)
    resumed = (f"checkpoint={before}", f"generations={len(values)}", "time_limit=null")
    well(neuro_inside("resume", "limited", *resumed, cwd=tmp_path))
    assert rates(run) == values
    assert digest(run) == whole
