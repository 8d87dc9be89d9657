"""Scores of many members in one pass: equal to members one by one, on any share of the members, or a log line why not."""

import logging

import numpy as np
import pytest
import torch
from configs import SAMPLERS, composed, reuses_noise
from torch import Tensor, nn

from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import batched

SETTING = ("layout=per_example", "population=24", "batch_size=24", "model=MNIST_10K", "threads=2", "algo.sigma=0.05")


def parts_of(*overrides: str) -> Parts:
    return build(Options(composed(*SETTING, *overrides)), SingleProcess())


def scores(parts: Parts, members: range) -> np.ndarray:
    job = parts.distribution.job
    return job.scorer.scores(parts.algo.ask(2), 2, members)


REUSING = [name for name in SAMPLERS if reuses_noise(name)]


@pytest.mark.parametrize("sampler", REUSING)
@pytest.mark.parametrize(
    "options", [(), ("sampler.antithetic=false",), ("task.fitness=accuracy", "model=MNIST_30K"), ("threads=1", "batch_size=48")]
)
def test_batched_scores_are_those_of_single_members(sampler, options, monkeypatch, caplog):
    with caplog.at_level(logging.INFO):
        together = scores(parts_of(f"sampler={sampler}", *options), range(24))
    assert "members in one forward pass" in caplog.text
    monkeypatch.setattr("neuro_cli.scoring.choice.FEW_EXAMPLES", 0)
    single = scores(parts_of(f"sampler={sampler}", *options), range(24))
    np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)
    assert len(np.unique(together[:, -1])) > 12


@pytest.mark.parametrize("sampler", REUSING)
def test_a_score_does_not_depend_on_the_share_of_the_members(sampler, monkeypatch):
    monkeypatch.setitem(batched.ROWS, "cpu", (8, 8))
    parts = parts_of(f"sampler={sampler}")
    whole = scores(parts, range(24))
    for cut in (1, 5, 8, 13):
        shares = np.concatenate([scores(parts, range(cut)), scores(parts, range(cut, 24))])
        assert np.array_equal(shares, whole)


def test_runs_of_directions_with_noise_of_their_own(monkeypatch):
    options = ("sampler=sign_flip", "sampler.directions_per_noise=5", "population=30", "batch_size=30")
    together = scores(parts_of(*options), range(30))
    monkeypatch.setattr("neuro_cli.scoring.choice.FEW_EXAMPLES", 0)
    np.testing.assert_allclose(together, scores(parts_of(*options), range(30)), rtol=1e-4, atol=1e-4)


class Mixing(nn.Module):
    """What an example gets depends on the others: members in one batch would disturb each other."""

    input_shape = (1, 28, 28)

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(784, 10)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.layer(images.flatten(1))
        return logits - logits.mean(0)


class ByAttribute(nn.Module):
    """Uses its weight in a way that no layer function sees."""

    input_shape = (1, 28, 28)

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(784, 10))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight


@pytest.mark.parametrize("kind", [Mixing, ByAttribute])
def test_a_module_that_cannot_be_batched_is_scored_one_by_one_and_says_so(kind, caplog):
    with caplog.at_level(logging.WARNING):
        parts = parts_of("sampler=sign_flip", f"model._target_={__name__}.{kind.__name__}")
    assert "members are scored one by one, slower" in caplog.text
    assert np.isfinite(scores(parts, range(24))).all()


def test_step_sizes_for_every_parameter_are_scored_one_by_one(caplog):
    parts = parts_of("sampler=low_rank", "algo=snes")
    with caplog.at_level(logging.WARNING):
        parts.distribution.step(0)
    assert "every parameter has a step size of its own" in caplog.text


def test_pair_shaping_needs_pairs():
    from neuro_cli.core.errors import ConfigError

    with pytest.raises(ConfigError, match=r"sampler.antithetic=False: the algorithm compares the members of pairs"):
        parts_of("sampler=iid", "algo.shaping=pair_rank")
