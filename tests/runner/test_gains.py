"""A run with algo.sigma=auto or algo.optimizer.lr=auto measures gains at its start, and chooses by them."""

import json
import shutil
from functools import partial

import pytest
import torch
from support.inside import neuro_in_one_world, neuro_inside, well
from support.worlds import needs_mpi

from neuro_cli import Evolution
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.step_size.auto import SHARE, first_near
from neuro_cli.core.errors import ConfigError
from neuro_cli.run_folder.checkpoint import CheckpointStore

SHORT = ("population=12", "batch_size=16", "threads=1", "generations=2", "evaluate.every=100")
OPEN = ("algo.sigma=auto", "algo.optimizer.lr=auto")
SMALL = ("model=mlp_policy", "model.hidden=[5]")  # a measurement has dozens of passes


def hill(point: torch.nn.Module) -> float:
    """A hill in steps of a hundredth, so flat near a point on its slope and far from it."""
    return float(torch.exp(-(point() ** 2).sum() / 2).mul(100).round()) / 100


def test_the_sigma_of_a_hill_in_steps_lies_between_its_steps_and_its_width():
    point = torch.full((8,), 0.5)
    evolution = Evolution(
        point, algo=OpenAIES(sigma="auto", optimizer=partial(torch.optim.SGD, lr=0.01)), population=64, threads=1
    )
    evolution.step(hill)
    table = evolution.state_dict()["scalars"]["gains"]
    # a step of the hill is 0.01, its slope 0.37 * 1.4: sides of pairs by a sigma below 0.01 mostly fit the same step
    assert table["sigma"] >= 0.0125
    by_sigma = {row["sigma"]: row["gain"] for row in table["sigmas"]}
    assert by_sigma[min(by_sigma)] < SHARE * max(by_sigma.values())
    assert table["rate"] is None


def test_the_rate_on_a_quadratic_is_a_share_of_one_over_its_curvature():
    curvature = 8.0
    algo = OpenAIES(sigma=0.05, optimizer=partial(torch.optim.SGD, lr="auto"), shaping="raw")
    evolution = Evolution(torch.linspace(-1, 1, 4), algo=algo, population=64, threads=1, minimise=True)
    evolution.step(lambda point: curvature * (point() ** 2).sum() / 2)
    assert 0.15 / curvature < algo.auto.gains.rate < 0.75 / curvature  # the step by 1 / curvature reaches the optimum


@needs_mpi
@pytest.mark.xdist_group("ranks")
def test_ranks_choose_alike_and_a_resumed_run_has_the_same_bits(tmp_path):
    lines = [("train", *SHORT, *OPEN, *SMALL, "checkpoint.every=1", "checkpoint.keep=9", "hydra.run.dir=three")]
    done = neuro_in_one_world(*lines, ranks=3, cwd=tmp_path)[0]
    assert done.returncode == 0, done.stderr
    done = well(neuro_inside(*lines[0][:-1], "hydra.run.dir=one", cwd=tmp_path))
    assert "gains of the first step" in done.stdout
    wanted = outcome(tmp_path / "three")
    assert outcome(tmp_path / "one") == wanted
    shutil.copytree(tmp_path / "one", tmp_path / "from1")
    well(neuro_inside("resume", "from1", "checkpoint=1", cwd=tmp_path))
    assert outcome(tmp_path / "from1") == wanted


def outcome(run) -> tuple[str, dict]:
    sha = json.loads((run / "summary.json").read_text())["parameters_sha256"]
    return sha, CheckpointStore(run, keep=9).load(None).scalars["gains"]


def test_the_first_near_the_best_is_chosen():
    assert first_near([float("-inf"), 0.4, 0.6, 1.0]) == 2
    assert first_near([0.1, 0.4, 0.3]) == 1
    assert first_near([-0.1, 0.0, float("-inf")]) is None


def test_a_fitness_without_any_gain_leaves_the_values_by_size(caplog):
    evolution = Evolution(torch.ones(3), algo="openai_es", sigma="auto", lr="auto", population=4, threads=1)
    evolution.step(lambda point: 0.0)
    assert evolution._algo.sigma_at(0) == 0.05
    assert evolution._algo.rate_at(0) == 0.02


def test_what_cannot_measure_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"algo\.sigma=widest: must be a number > 0, or auto"):
        OpenAIES(sigma="widest")
    with pytest.raises(ConfigError, match=r"algo\.sigma=auto: is measured by step"):
        Evolution(torch.zeros(3), algo="ars", sigma="auto").ask()
    from neuro_cli import AskTell

    with pytest.raises(ConfigError, match="AskTell needs a number"):
        AskTell(torch.zeros(3), algo=OpenAIES(sigma="auto"))
    done = neuro_inside("train", "sampler=activation", "algo=forward_gradient", "algo.sigma=auto", cwd=tmp_path)
    assert done.returncode == 2
    assert "not with sampler=activation" in done.stderr
