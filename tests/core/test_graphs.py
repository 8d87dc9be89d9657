"""What is recorded of a generation, what changes in it, and what is said where nothing is. With CUDA: tests/gpu."""

import logging
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from support.configs import composed
from torch import Tensor

from neuro_cli.core.kernels import graphs
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.sampler.block_sums import BlockSums
from neuro_cli.scoring.batched import BatchedScorer

MEMBERS = 12
SETTING = (
    "threads=1", "layout=per_example", f"population={MEMBERS}", f"batch_size={MEMBERS}", "model=MNIST_10K", "algo.sigma=0.05"
)  # fmt: skip


class Remembered:
    """Stands in for a graph: a function of places of its own, which are filled before each call."""

    made = 0

    def __init__(self, function: graphs.Function, tensors: Sequence[Tensor]) -> None:
        Remembered.made += 1
        self._function, self._read = function, [torch.full_like(tensor, 7) for tensor in tensors]

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        for place, tensor in zip(self._read, tensors, strict=True):
            place.copy_(tensor)
        return self._function(*self._read)


def parts_of(*overrides: str) -> Parts:
    return build(Options(composed(*SETTING, *overrides)), SingleProcess())


def scores(parts: Parts, recorded: bool) -> list[np.ndarray]:
    """Scores of three generations: a form is met, recorded, and played again."""
    scorer = BatchedScorer(parts.distribution.job.scorer.settings, parts.algo.ask(0).bases[0])
    if recorded:
        scorer._graphs = graphs.Graphs("forward passes")
    return [scorer.scores(parts.algo.ask(generation), generation, range(MEMBERS)) for generation in range(3)]


@pytest.fixture
def remembered(monkeypatch):
    Remembered.made = 0
    monkeypatch.setattr(graphs, "Recorded", Remembered)


@pytest.mark.parametrize(
    ("sampler", "layout"), [("low_rank", "per_example"), ("iid", "shared_batch"), ("antithetic", "per_example")]
)
def test_a_recorded_pass_reads_the_noise_and_examples_of_its_chunk(sampler, layout, remembered, monkeypatch):
    options = [f"sampler={sampler}", f"layout={layout}"]
    if sampler != "low_rank":  # a CPU scores its members one by one
        monkeypatch.setattr("neuro_cli.sampler.dense.Dense.reuses_noise", True)
    wanted, made = scores(parts_of(*options), False), scores(parts_of(*options), True)
    assert Remembered.made > 0
    assert all(np.array_equal(*pair) for pair in zip(wanted, made, strict=True))
    assert not np.array_equal(wanted[0], wanted[1])


@pytest.mark.parametrize("sampler", ["sign_flip", "permutation"])
def test_noise_that_is_made_within_the_pass_is_not_recorded(sampler, remembered, caplog):
    wanted, made = scores(parts_of(f"sampler={sampler}"), False), scores(parts_of(f"sampler={sampler}"), True)
    assert all(np.array_equal(*pair) for pair in zip(wanted, made, strict=True))
    assert Remembered.made == 0
    assert [record.getMessage() for record in caplog.records if "one by one" in record.getMessage()] == [
        "cuda_graphs=true, but forward passes are launched one by one, slower: this sampler makes noise within them"
    ]


def test_asked_for_on_a_cpu_it_says_that_nothing_changes(caplog):
    parts_of("cuda_graphs=true", "device=cpu")
    assert caplog.text.count("cuda_graphs=true changes nothing on device=cpu") == 1


def test_scales_that_change_each_time_end_it(remembered, caplog):
    parts = parts_of("sampler=low_rank", "algo.sigma_schedule.kind=linear", "algo.sigma_schedule.final=0.1", "generations=40")
    scorer = parts.distribution.job.scorer
    assert isinstance(scorer, BatchedScorer)
    scorer._graphs = graphs.Graphs("forward passes")
    with caplog.at_level(logging.WARNING):
        for generation in range(12):
            scorer.scores(parts.algo.ask(generation), generation, range(MEMBERS))
    assert caplog.text.count("change too often") == 1
    assert Remembered.made == 0


def test_members_that_are_not_small_are_not_recorded(remembered, monkeypatch, caplog):
    monkeypatch.setattr(graphs, "SMALL", 1000)
    scores(parts_of("sampler=low_rank"), True)
    assert Remembered.made == 0
    assert "the members are not small" in caplog.text


def test_recorded_sums_read_the_factors_and_weights_of_their_generation(remembered):
    weights = [np.random.default_rng(generation).standard_normal((2, MEMBERS)) for generation in range(4)]
    made = []
    for recorded in (False, True):
        sampler = parts_of("sampler=low_rank").distribution.job.sampler
        assert isinstance(sampler, BlockSums)
        sampler.graphs = graphs.Graphs("sums over directions") if recorded else None
        bounds = range(MEMBERS // 2), 5, sampler.layout.size - 3
        made.append([sampler._sums_on_device(rows[:, ::2], (1, 2), 3 + n, *bounds) for n, rows in enumerate(weights)])
    assert Remembered.made == 1
    assert all(torch.equal(*pair) for pair in zip(*made, strict=True))
    assert not torch.equal(made[0][0], made[0][1])


def test_a_function_that_cannot_be_recorded_goes_on_as_it_is(monkeypatch, caplog):
    def fails(*_):
        raise RuntimeError("operation not permitted when stream is capturing\nCompile with")

    monkeypatch.setattr(graphs, "Recorded", fails)
    run = graphs.Graphs("sums")
    assert [run("form", torch.neg, [torch.ones(1) * number]).item() for number in range(4)] == [0, -1, -2, -3]
    assert [record.getMessage() for record in caplog.records] == [
        "cuda_graphs=true, but sums are launched one by one, slower: operation not permitted when stream is capturing"
    ]
