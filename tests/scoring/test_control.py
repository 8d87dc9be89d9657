"""Control variates of noise on activations: no bias, less noise, the same bits on any ranks and threads and after a resume."""

import json

import numpy as np
import pytest
import torch
from activation_lab import SIGMA, Made, bound, estimate, gradient
from inside import neuro_inside
from thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli.algo.ars import ARS
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.threads import Threads
from neuro_cli.distribution.auto import Auto
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.distribution.semi_updates import SemiUpdates
from neuro_cli.fabric.base import World
from neuro_cli.scoring.activation.control import Controls

LEARNT, SEEN = 200, 100  # generations before errors count, and while they do


class Words(nn.Module):
    """Characters without a word to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.middle, self.head = nn.Embedding(7, 4), nn.Linear(4, 6), nn.Linear(6, 7)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.middle(self.words(x))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    )


def errors(make, task: Made, control: bool, **options: object) -> tuple[float, float]:
    """Mean squared error of estimates in units of the squared gradient, and the squared length of their mean error."""
    parts = bound(make, task, draws=4, space="outputs", control_variates=control, **options)
    seen, total = [], torch.zeros(len(parts.algo.centre), dtype=torch.float64)
    for generation in range(LEARNT + SEEN):
        made = estimate(parts, generation)
        if generation >= LEARNT:
            right = gradient(parts, generation)
            error = (made - right) / right.norm()
            seen.append(float(error.square().sum()))
            total += error / SEEN
    return sum(seen) / SEEN, float(total.square().sum())


@pytest.mark.parametrize(
    ("make", "task"), [(mlp, Made((5,), 3, 64)), (cnn, Made((2, 6, 6), 3, 64)), (Words, Made((5,), 7, 32, words=7, tokens=True))]
)
@pytest.mark.parametrize("options", [{}, {"antithetic": False}, {"schedule": "all"}])
def test_estimates_have_no_bias_and_far_smaller_errors(make, task, options):
    without, _ = errors(make, task, False, **options)
    error, bias = errors(make, task, True, **options)
    assert error < 0.5 * without
    assert bias < 3 * error / SEEN  # as errors of independent generations with mean zero add up


def trained(world: World, threads: int = 1, stop: int = 0) -> np.ndarray:
    """The centre after six generations; restored from the state of ``stop`` where that is above 0."""

    def made():
        algo = OpenAIES(SIGMA, shaping="raw")
        return bound(
            cnn, Made((2, 6, 6), 3, 12), world, Replicated(), algo, threads, torch.float32, draws=3, control_variates=True
        )

    parts = made()
    for generation in range(6):
        if stop and generation == stop:
            state, parts = parts.state(), made()
            assert any(name.startswith("distribution.scores.control.") for name in state.tensors)
            parts.restore(state)
            again = parts.state().tensors  # a run that ends before its next generation keeps what it had
            assert all(torch.equal(again[name], tensor) for name, tensor in state.tensors.items())
        parts.distribution.step(generation)
    parts.threads.close()
    return parts.algo.centre.numpy()


def test_a_run_has_the_same_bits_on_any_ranks_and_threads_and_after_a_restart():
    [whole] = on_ranks(1, trained)
    for ranks in (2, 3):
        for part in on_ranks(ranks, trained):
            np.testing.assert_array_equal(part, whole)
    for threads, stop in ((2, 0), (1, 3), (2, 5)):
        [part] = on_ranks(1, lambda world, threads=threads, stop=stop: trained(world, threads, stop))
        np.testing.assert_array_equal(part, whole)


def test_a_run_resumes_with_the_same_bits(tmp_path):
    setting = ("sampler=activation", "sampler.control_variates=true", "generations=20", "threads=1", "checkpoint.every=10")
    done = neuro_inside("train", *setting, "hydra.run.dir=whole", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "scoring: control variates on" in (tmp_path / "whole" / "log.txt").read_text()
    done = neuro_inside("train", *setting, "time_limit=0.01", "hydra.run.dir=half", cwd=tmp_path)
    done = neuro_inside("resume", "half", "time_limit=null", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole, half = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("whole", "half"))
    assert half["parameters_sha256"] == whole["parameters_sha256"]


@pytest.mark.parametrize("method", [ChromosomeUpdates, SemiUpdates])
def test_methods_that_split_the_sums_are_refused(method):
    with pytest.raises(ConfigError, match=r"sampler.control_variates=True: distribution=.* does not make all sums on every rank"):
        bound(mlp, Made((5,), 3, 8), method=method(), control_variates=True)


@pytest.mark.parametrize("algo", [OpenAIES(SIGMA), ARS()])
def test_weights_that_are_not_proportional_to_fitnesses_are_refused(algo):
    with pytest.raises(ConfigError, match=r"sampler.control_variates=True: needs weights that are proportional to fitnesses"):
        bound(mlp, Made((5,), 3, 8), algo=algo, control_variates=True)


def test_auto_takes_replicated():
    def chosen(world: World) -> str:
        method = Auto({"chromosome_updates": ChromosomeUpdates(), "replicated": Replicated()})
        return bound(mlp, Made((5,), 3, 8), world, method, control_variates=True).distribution.name

    assert on_ranks(2, chosen) == ["replicated", "replicated"]


def test_a_layer_learns_from_the_nearest_later_one_that_a_matrix_reaches():
    controls = Controls([5000, None, 3000, 2000, 10], Threads(1), torch.device("cpu"))
    shapes = {number: tuple(matrix.shape) for number, matrix in controls.matrices.items()}
    assert shapes == {3: (10, 2000), 2: (10, 3000), 0: (10, 5000)}
    assert {n: tuple(m.shape) for n, m in Controls([300, 200, 10], Threads(1), torch.device("cpu")).matrices.items()} == {
        1: (10, 200),
        0: (200, 300),
    }
    with pytest.raises(ConfigError, match="last layer needs noise on at most 128 outputs"):
        Controls([5, 129], Threads(1), torch.device("cpu"))
