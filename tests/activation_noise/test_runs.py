"""Runs of the command line with sampler=activation: on defaults, by evolve, on a task without examples, over a resume."""

import json

import pytest
from support.configs import composed
from support.inside import neuro_inside, well

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))

    def forward(self, x):
        return self.layers(x)
"""


def test_a_network_of_ones_own_trains_without_another_key_and_resumes_with_the_same_bits(tmp_path):
    (tmp_path / "net_of_two_layers.py").write_text(NET)
    setting = ("model._target_=net_of_two_layers.Net", "sampler=activation", "generations=60", "threads=1", "checkpoint.every=30")
    well(neuro_inside("train", *setting, "hydra.run.dir=whole", cwd=tmp_path))
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["test_accuracy"] > 0.65
    log = (tmp_path / "whole" / "log.txt").read_text()
    assert "scoring: noise on 2 layers, 2 on outputs; 4 draws of 2 groups; each pass begins at its noisy layer" in log
    assert "scoring: control variates on" in log
    assert "population 1024" in log
    neuro_inside("train", *setting, "time_limit=0.01", "hydra.run.dir=half", cwd=tmp_path)
    well(neuro_inside("resume", "half", "trust=net_of_two_layers", "time_limit=null", cwd=tmp_path))
    half = json.loads((tmp_path / "half" / "summary.json").read_text())
    assert half["parameters_sha256"] == summary["parameters_sha256"]


def test_accuracy_is_a_fitness_too():
    small = {
        "_target_": "torch.nn.Sequential",
        "_args_": [{"_target_": "torch.nn.Flatten"}, {"_target_": "torch.nn.Linear", "in_features": 64, "out_features": 10}],
    }
    setting = ("sampler=activation", "task.fitness=accuracy", "algo.sigma=0.5", "sampler.draws=16", "threads=1")
    parts = build(Options(composed(*setting) | {"model": small}), SingleProcess())
    reports = [parts.distribution.step(generation) for generation in range(80)]
    parts.threads.close()
    assert sum(report.fitness_mean for report in reports[-10:]) / 10 > 0.4
    assert reports[-1].loss is not None


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (("algo=snes",), "sampler=activation: it perturbs no parameters, and algo=SNES learns a step size of each parameter"),
        (
            ("task=lunar_lander", "model=mlp_policy", "task.id=CartPole-v1"),
            "sampler=activation: it needs a task with examples; Reinforcement scores episodes",
        ),
    ],
)
def test_what_noise_on_activations_does_not_serve_is_said_in_one_line(overrides, line):
    if "task=lunar_lander" in overrides:
        pytest.importorskip("gymnasium")
    with pytest.raises(ConfigError, match=line):
        build(Options(composed("sampler=activation", *overrides)), SingleProcess())


def test_evolve_says_why_not(tmp_path):
    done = neuro_inside("evolve", "sampler=activation", "cluster.local_peers=1", "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 2
    assert "sampler=activation: it perturbs no parameters, and algo=SeedSteps passes members on as seeds" in done.stderr


def test_an_algorithm_that_is_named_is_taken():
    assert composed("sampler=activation")["algo"]["shaping"] == "raw"
    assert composed("sampler=activation", "algo=ars")["algo"]["_target_"].endswith(".ARS")
