"""Average of centres (``algo.average``): its recursion in NumPy, what is evaluated and saved."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from support.configs import composed
from torch import nn

from neuro_cli.algo.centre.optimizer import CentreOptimizer
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.run_folder.summary import parameters_sha256
from neuro_cli.runner.loop import train
from neuro_cli.runner.options import Options

RUN = ("generations=12", "population=16", "batch_size=32", "threads=1", "evaluate.every=6", "checkpoint.every=6")


def optimizer(average: float) -> tuple[CentreOptimizer, torch.Tensor]:
    module = nn.Linear(7, 3)
    layout = ParameterLayout(module)
    centre = layout.flatten(module)
    return CentreOptimizer(partial(torch.optim.SGD, lr=0.5), CONSTANT, centre, layout, average=average), centre


def test_the_average_is_the_recursion_in_numpy_to_the_bit():
    ours, start = optimizer(0.3)
    expected = start.numpy().copy()
    for generation in range(20):
        ours.ascend(generation, torch.sin(torch.arange(24.0) * (generation + 1)))
        share = np.float32(min(0.3, (1 + generation) / (10 + generation)))
        expected = (expected - ours.centre.numpy()) * share + ours.centre.numpy()
        np.testing.assert_array_equal(ours.average.numpy(), expected)
    assert not np.array_equal(expected, ours.centre.numpy())


def test_the_average_of_a_noisy_centre_is_nearer_to_the_optimum():
    ours, start = optimizer(0.95)
    random, far = torch.Generator().manual_seed(2), []
    for generation in range(300):
        noise = torch.randn(start.shape, generator=random)
        ours.ascend(generation, -ours.centre + noise)
        far.append((float(ours.average.norm()), float(ours.centre.norm())))
    averages, centres = np.array(far[100:]).mean(0)
    assert averages < 0.5 * centres


def test_without_it_nothing_is_kept():
    ours, _ = optimizer(0.0)
    ours.ascend(0, torch.ones(24))
    assert ours.average is None
    assert "average" not in ours.state().tensors


@pytest.mark.parametrize("more", [("algo.average=0.8",), ("algo=sgd", "distribution=local", "algo.average=0.8")])
def test_a_run_evaluates_and_saves_the_average(tmp_path, more):
    options = Options(composed(*RUN, *more))
    summary = train(options, SingleProcess(), tmp_path, None)
    tensors = load_file(tmp_path / "checkpoints" / "00000012.safetensors")
    assert torch.equal(tensors["parameters"], tensors["algo.average"])
    assert not torch.equal(tensors["parameters"], tensors["algo.centre"])
    assert summary["parameters_sha256"] == parameters_sha256(tensors["algo.average"])
    model = load_file(tmp_path / "model.safetensors")
    assert torch.equal(torch.cat([model[name].reshape(-1) for name in model]).sort().values, tensors["parameters"].sort().values)
    assert json.loads((tmp_path / "summary.json").read_text())["parameters_sha256"] == summary["parameters_sha256"]
