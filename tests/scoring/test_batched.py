"""Scores of many members in one pass: equal to members one by one, on any share of the members, or a log line why not."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.configs import SAMPLERS, composed, reuses_noise
from torch import Tensor, nn
from torchvision.models import VisionTransformer

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import chunk_size
from neuro_cli.scoring.choice import scorer_of
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.trial import Trial, chosen_way, scored_members

SETTING = ("layout=per_example", "population=24", "batch_size=24", "model=MNIST_10K", "threads=2", "algo.sigma=0.05")


def parts_of(*overrides: str) -> Parts:
    return build(Options(composed(*SETTING, *overrides)), SingleProcess())


def scores(parts: Parts, members: range) -> np.ndarray:
    job = parts.distribution.job
    return job.scorer.scores(parts.algo.ask(2), 2, members)


def singly(parts: Parts, members: range) -> np.ndarray:
    """The same, one member after the other."""
    proposal = parts.algo.ask(2)
    return MemberScorer(parts.distribution.job.scorer.settings, proposal.bases[0]).scores(proposal, 2, members)


REUSING = [name for name in SAMPLERS if reuses_noise(name)]


OPTIONS = [("sampler.antithetic=false",), ("task.fitness=accuracy", "model=MNIST_30K"), ("threads=1", "batch_size=48")]


@pytest.mark.parametrize(
    ("sampler", "options"), [(name, OPTIONS[(place + shift) % 3]) for place, name in enumerate(REUSING) for shift in (0, 1)]
)
def test_batched_scores_are_those_of_single_members(sampler, options, caplog):
    with caplog.at_level(logging.INFO):
        together = scores(parts_of(f"sampler={sampler}", *options), range(24))
    assert "members in one forward pass" in caplog.text
    single = singly(parts_of(f"sampler={sampler}", *options), range(24))
    np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)
    assert len(np.unique(together[:, -1])) > 12


@pytest.mark.parametrize("sampler", REUSING)
def test_scores_and_sums_without_a_blas_to_call(sampler, monkeypatch):
    """By torch operations, as where torch's library shows no sgemm."""
    weights = np.random.default_rng(1).standard_normal((1, 24))

    def outcome() -> tuple[np.ndarray, Tensor]:
        parts = parts_of(f"sampler={sampler}")
        job = parts.distribution.job
        return scores(parts, range(24)), job.sampler.combine(weights, (1,), 2, range(24), 0, job.sampler.layout.size)

    (called, sums), _ = outcome(), monkeypatch.setattr("neuro_cli.core.kernels.blas.SERVES", False)
    other, other_sums = outcome()
    np.testing.assert_allclose(called, other, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(sums, other_sums, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("sampler", "precision"), [*((name, "float32") for name in REUSING), ("low_rank", "bfloat16"), ("sign_flip", "bfloat16")]
)
def test_a_score_does_not_depend_on_the_share_of_the_members(sampler, precision, monkeypatch):
    monkeypatch.setitem(chunk_size.ROWS, "cpu", (8, 8))
    parts = parts_of(f"sampler={sampler}", f"precision={precision}")
    whole = scores(parts, range(24))
    for cut in (1, 5, 8, 13):
        shares = np.concatenate([scores(parts, range(cut)), scores(parts, range(cut, 24))])
        assert np.array_equal(shares, whole)


@given(largest=st.integers(1, 2**20), total=st.integers(1, 10**5))
def test_two_threads_have_equal_shares_of_chunks(largest, total):
    cpu = torch.device("cpu")
    rows, (least, most) = chunk_size.chunk_rows(largest, cpu, total), chunk_size.ROWS["cpu"]
    count = -(-total // rows)
    assert least <= rows <= most
    assert rows * largest <= max(chunk_size.ACTIVATION["cpu"], least * largest)
    if rows > least:
        assert -(-count // 2) * rows - total / 2 <= max(count, rows / 20)  # the longer share of two threads, over a half


def test_runs_of_directions_with_noise_of_their_own():
    options = ("sampler=sign_flip", "sampler.directions_per_noise=5", "population=30", "batch_size=30")
    together = scores(parts_of(*options), range(30))
    np.testing.assert_allclose(together, singly(parts_of(*options), range(30)), rtol=1e-4, atol=1e-4)


class Image(nn.Module):
    input_shape = (1, 28, 28)


class ByAttribute(Image):
    """Uses its weights in ways that no layer does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.zeros(784, 10)), nn.Parameter(torch.ones(10))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight * self.scale


class Vision(Image):
    def __init__(self) -> None:
        super().__init__()
        self.inner = VisionTransformer(28, 14, 1, 2, 16, 16, num_classes=10)
        nn.init.normal_(self.inner.heads.head.weight, std=0.3)  # zero at first

    def forward(self, images: Tensor) -> Tensor:
        return self.inner(images.expand(-1, 3, -1, -1))


class Recurrent(Image):
    """Reads an image line by line."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner, self.head = getattr(nn, kind)(28, 12, batch_first=True), nn.Linear(12, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.inner(images[:, 0, ::4])[0][:, -1])


class Begun(Recurrent):
    """Begins with a state that is a parameter, which the map alone serves."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.first = nn.Parameter(torch.ones(12))

    def forward(self, images: Tensor) -> Tensor:
        state = self.first.expand(1, len(images), 12).contiguous()
        return self.head(self.inner(images[:, 0, ::4], state)[0][:, -1])


class Residual(Image):
    """Batch norm over a map of one pixel, as in the last layers of torchvision's ResNet-18 on small images."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 16, 7, 4, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(6))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)) for _ in range(6)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.first(images)
        for block in self.blocks:
            x = torch.relu(block(x) + x)
        return self.head(x.flatten(1))


def model(kind: type[nn.Module]) -> str:
    return f"model._target_={__name__}.{kind.__name__}"


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [(ByAttribute, "permutation"), (Vision, "sign_flip"), (Recurrent, "low_rank"), (Residual, "sign_flip")],
)
def test_other_networks_share_a_pass_too_and_nothing_is_said(kind, sampler, caplog, recwarn):
    options = [f"sampler={sampler}", model(kind), "batch_size=24", *(["+model.kind=GRU"] if kind is Recurrent else [])]
    with caplog.at_level(logging.INFO):
        together = scores(parts_of(*options), range(24))
    assert "members in one forward pass" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert not [warning for warning in recwarn if "batching rule" in str(warning.message)]
    single = singly(parts_of(*options), range(24))
    if kind is not Residual:  # where two values are normalised, rounding decides between plus and minus one
        np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)
    assert np.isfinite(together).all()


def test_a_trial_in_float64_tells_rounding_from_a_mistake():
    parts = parts_of("sampler=sign_flip", model(Residual), "algo.sigma=0.05")
    settings = parts.distribution.job.scorer.settings
    centre = parts.algo.ask(0).bases[0]
    way = chosen_way(settings, centre).way
    members = scored_members(settings, centre)
    errors = [
        float((trial.outputs(way)[0] - trial.wanted[0]).abs().max())
        for trial in (Trial(members, dtype) for dtype in (torch.float32, torch.float64))
    ]
    assert errors[1] < 1e-9 < errors[0]


def test_single_members_are_taken_where_they_are_faster(monkeypatch, caplog):
    monkeypatch.setattr("neuro_cli.scoring.chunk_size.MANY", 1000)
    monkeypatch.setattr("neuro_cli.scoring.chunk_size.PER_WEIGHT", 6)
    with caplog.at_level(logging.INFO):
        parts_of("sampler=sign_flip", model(Begun), "+model.kind=GRU")  # 7 steps
        assert "would be slower here" in caplog.text
        caplog.clear()
        parts_of("sampler=sign_flip", model(ByAttribute))  # a product for each weight
    assert "would be slower here" not in caplog.text


class Reading(Image):
    """Reads a number of a parameter, which is another for each member."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gain = nn.Linear(784, 10), nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.expand(-1, 1, -1, -1).flatten(1)) * self.gain.item()


def test_a_module_that_cannot_be_batched_is_scored_one_by_one_and_says_so_once_and_shortly(caplog):
    with caplog.at_level(logging.WARNING):
        parts = parts_of("sampler=sign_flip", model(Reading))
        for _ in range(3):
            assert np.isfinite(scores(parts, range(24))).all()
        scorer_of(replace(parts.distribution.job.scorer.settings, batch_size=48), parts.algo.ask(0).bases[0])
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == "members are scored one by one, slower: Reading: item reads parameter gain"


def test_batch_norm_of_a_single_value_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"^batch_size=12: batch norm blocks.0.1 needs more than one example for each member"):
        parts_of("sampler=sign_flip", model(Residual), "batch_size=12")


def test_step_sizes_for_every_parameter_are_scored_one_by_one(caplog):
    parts = parts_of("sampler=low_rank", "algo=snes")
    with caplog.at_level(logging.WARNING):
        parts.distribution.step(0)
    assert "every parameter has a step size of its own" in caplog.text


class Few(nn.Module):
    """Network of 68 parameters, few enough for a full covariance, before a layer that no algorithm moves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 4), nn.Linear(4, 10).requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(nn.functional.avg_pool2d(images, 2).flatten(1))))


VECTORS = [("cr_fm_nes", "antithetic"), ("cma_es", "iid"), ("xnes", "antithetic"), ("genetic", "iid"), ("genetic", "antithetic")]


@pytest.mark.parametrize(("algo", "sampler"), VECTORS)
@pytest.mark.parametrize("layout", ["shared_batch", "per_example"])
def test_members_with_parents_or_transformed_noise_share_a_pass(algo, sampler, layout, caplog):
    with caplog.at_level(logging.INFO):
        parts = parts_of(f"sampler={sampler}", f"algo={algo}", f"layout={layout}", model(Few), "algo.sigma=0.3")
        for generation in range(2):
            parts.distribution.step(generation)  # parents that differ, a covariance that is none of the first
        together = scores(parts, range(24))
    assert "slower" not in caplog.text
    assert "members in one forward pass" in caplog.text
    np.testing.assert_allclose(together, singly(parts, range(24)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(scores(parts, range(5, 14)), together[5:14])
    assert len(np.unique(together[:, -1])) > 12


def test_a_full_covariance_takes_no_population_whose_weights_fill_the_memory():
    with pytest.raises(ConfigError, match=r"^population=10000: algo=cma_es sums the noise of each member: at most 8,192; "):
        parts_of("algo=cma_es", model(Few), "population=10000", "layout=shared_batch")


def test_pair_shaping_needs_pairs():
    with pytest.raises(ConfigError, match=r"sampler.antithetic=False: the algorithm compares the members of pairs"):
        parts_of("sampler=iid", "algo.shaping=pair_rank")
