"""Whole runs of reinforcement learning: metrics, evaluation, a module that normalises by itself. tests/contracts resume them."""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from support.inside import neuro_inside, one_line, well
from support.tables import rows_of

import neuro_cli
from neuro_cli.task.reinforcement.observations import NormalisedPolicy

pytest.importorskip("gymnasium")

CART_POLE = (
    "train", "task=lunar_lander", "task.id=CartPole-v1", "task.max_steps=60", "task.evaluation_episodes=12", "model=mlp_policy",
    "model.hidden=[5]", "+algo=pgpe", "algo.sigma=0.5", "population=8", "threads=1", "evaluate.every=2", "checkpoint.every=2",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """With a run of six generations."""
    place = tmp_path_factory.mktemp("rl")
    well(neuro_inside(*CART_POLE, "generations=6", "hydra.run.dir=whole", cwd=place))
    return place


def test_metrics_tell_returns_and_steps(folder):
    rows = rows_of(folder / "whole" / "metrics.csv")
    assert [bool(row["mean_return"]) for row in rows] == [False, True] * 3
    for row in rows:
        assert float(row["fitness_mean"]) == pytest.approx(float(row["episode_length"]))  # CartPole gives 1 a step
        assert int(row["environment_steps"]) == pytest.approx(8 * float(row["episode_length"]))
        assert float(row["steps_per_second"]) > 0
        assert row["train_loss"] == ""
        assert "test_accuracy" not in row
    summary = json.loads((folder / "whole" / "summary.json").read_text())
    assert summary["mean_return"] == float(rows[-1]["mean_return"])
    assert summary["test_episodes"] == 12
    assert not summary.keys() & {"test_accuracy", "test_loss"}
    assert summary["versions"]["gymnasium"] == version("gymnasium")


def test_a_report_has_a_column_of_returns(folder):
    done = neuro_inside("report", "whole", "html=false", cwd=folder)
    summary = json.loads((folder / "whole" / "summary.json").read_text())
    assert "mean return" in done.stdout
    (words,) = (line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["whole"])
    assert f"{summary['mean_return']:.1f}" in words  # a time may read like the return: it must not count for it


def test_evaluate_plays_the_same_episodes_of_the_test(folder):
    done = well(neuro_inside("evaluate", "whole", cwd=folder))
    summary = json.loads((folder / "whole" / "summary.json").read_text())
    assert f"{summary['mean_return']:.1f}" in done.stdout
    more = neuro_inside("evaluate", "whole", "task.evaluation_episodes=20", cwd=folder)
    assert "20.0000" in more.stdout, more.stderr


def test_a_loaded_policy_normalises_by_itself(folder):
    """Against the definition on observations as the environment gives them."""
    import gymnasium

    policy = neuro_cli.load(folder / "whole")
    assert isinstance(policy, NormalisedPolicy)
    assert policy.mean.any()
    environment = gymnasium.make("CartPole-v1")
    seen = torch.from_numpy(np.stack([environment.reset(seed=seed)[0] for seed in range(5)]))
    normal = ((seen - policy.mean) * policy.inverse).clamp(-5, 5)
    assert torch.equal(policy(seen), policy.policy(normal))


def test_a_loaded_policy_needs_no_gymnasium(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnasium", None)
    assert neuro_cli.load(folder / "whole")(torch.zeros(1, 4)).shape == (1, 2)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["algo=sgd"], "algo=sgd: a return has no gradient"),
        (["model=MNIST_10K"], "model expects 1x28x28 numbers, task.id=CartPole-v1 gives observations of 4"),
        (["model.outputs=3"], "model: it has 3 outputs, task.id=CartPole-v1 needs 2"),
        (["algo=ars", "algo.top=5"], "algo.top=5: population=8 has 4 directions"),
    ],
)
def test_what_does_not_fit_ends_with_one_line(overrides, words, tmp_path):
    arguments = list(CART_POLE)
    if "model=MNIST_10K" in overrides:
        arguments = [text for text in arguments if not text.startswith("model")]
    if any(text.startswith("algo=") for text in overrides):
        arguments = [text for text in arguments if not text.startswith(("+algo", "algo"))]
    assert words in one_line(neuro_inside(*arguments, *overrides, cwd=tmp_path))
    assert not list(tmp_path.glob("outputs/train/*/*"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "goal"), [("CartPole-v1", 475), ("Pendulum-v1", -200), ("MountainCarContinuous-v0", 90)])
def test_an_environment_is_learnt_by_its_id_alone(name, goal, tmp_path):
    """The defaults of task=gymnasium; all episodes are long enough to reach the goal by what was learnt only."""
    well(neuro_inside(
        "train", "task=gymnasium", f"task.id={name}", "evaluate.every=5", "stop.metric=mean_return", f"stop.at={goal}",
        "threads=1", "hydra.run.dir=run", cwd=tmp_path,
    ))  # fmt: skip
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["mean_return"] >= goal
