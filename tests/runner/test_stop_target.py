"""``stop.metric`` and ``stop.at``: a run that has come far enough ends at that look, its checkpoint with it."""

import json

import pytest
from support.inside import neuro_inside, one_line, well
from support.worlds import needs_mpi

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.metric import ACCURACY, LOSS, RETURN
from neuro_cli.run_folder.checkpoint import CheckpointStore
from neuro_cli.runner.config import StopConfig, section
from neuro_cli.runner.stop_target import Target

pytestmark = pytest.mark.xdist_group("ranks")

SETTING = ("population=4", "batch_size=8", "threads=1", "generations=9", "evaluate.every=2", "checkpoint.every=100")


def test_a_goal_is_reached_from_its_value_on():
    goal = Target(StopConfig("mean_return", 200), (RETURN,))
    assert [goal.reached({"mean_return": value}) for value in (199.9, 200.0, 201.0, float("nan"))] == [False, True, True, False]
    assert not Target(StopConfig(None, None), (RETURN,)).reached({"mean_return": 1e9})


def test_a_goal_of_a_metric_where_lower_is_better_is_reached_from_above():
    goal = Target(StopConfig("test_loss", 0.5), (ACCURACY, LOSS))
    reached = [goal.reached({"test_accuracy": 1.0, "test_loss": value}) for value in (0.6, 0.5, 0.4, float("nan"))]
    assert reached == [False, True, True, False]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"metric": "mean_return", "at": None}, "stop.at=None: stop.metric and stop.at go together"),
        ({"metric": None, "at": 3}, "stop.metric=None: stop.metric and stop.at go together"),
        ({"metric": "mean_return", "at": "much"}, "stop.at=much: must be a number"),
        ({"metric": 3, "at": 3}, "stop.metric=3: must be the name of a metric"),
    ],
)
def test_half_a_goal_is_refused(keys, words):
    with pytest.raises(ConfigError, match=words):
        section(StopConfig, keys, "stop.")


def test_a_run_ends_at_the_look_that_reaches_it(tmp_path):
    done = well(neuro_inside("train", *SETTING, "stop.metric=test_accuracy", "stop.at=0", "hydra.run.dir=run", cwd=tmp_path))
    assert "stopped after generation 2 (test_accuracy has reached 0); continue with: neuro resume run" in done.stderr
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["generations"] == 2
    assert CheckpointStore(tmp_path / "run", keep=1).load(None).generation == 2
    well(neuro_inside("resume", "run", "stop.metric=null", "stop.at=null", "generations=3", cwd=tmp_path))
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["generations"] == 3


@needs_mpi
def test_a_metric_that_the_test_has_not_is_one_line_on_two_ranks(tmp_path):
    from support.inside import neuro_in_one_world

    wrong = ("train", *SETTING, "distribution=replicated", "stop.metric=test_acuracy", "stop.at=0.5", "hydra.run.dir=run")
    (done,) = neuro_in_one_world(wrong, cwd=tmp_path, ranks=2)
    assert one_line(done) == "stop.metric=test_acuracy: did you mean test_accuracy?"
