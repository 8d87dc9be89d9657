"""Trials of networks with many frozen parameters: without a copy of them in another type, and yet strict."""

import pytest
import torch
from support.configs import composed
from support.tiny_language import tiny_model

from neuro_cli.fabric.base import SingleProcess
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options
from neuro_cli.scoring import trial
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes import perturbed
from neuro_cli.scoring.trial import Trial


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tiny_model(tmp_path_factory.mktemp("llama"), num_hidden_layers=4)
    text = folder / "text.txt"
    text.write_text("12 + 35 = 47, " * 100)
    return (
        "model=huggingface", f"model.path={folder}", "task=text", f"task.files={text}", "task.context=8", "sampler=low_rank",
        "population=8", "batch_size=2", "threads=1",
    )  # fmt: skip


@pytest.fixture
def tried(monkeypatch):
    """Types and numbers of layers of all trials; every network counts as heavy."""
    seen = []
    monkeypatch.setattr(trial, "HEAVY", 1)

    class Seen(Trial):
        def __init__(self, members, dtype, rounded=False):
            seen.append((dtype, len(members.fresh().pretrained.model.layers)))
            super().__init__(members, dtype, rounded)

    monkeypatch.setattr(trial, "Trial", Seen)
    return seen


def scorer(settings, precision):
    return build(Options(composed(*settings, f"precision={precision}")), SingleProcess()).distribution.job.scorer


@pytest.mark.parametrize(
    ("precision", "wanted"),
    [("float32", [(torch.float32, 4)]), ("bfloat16", [(torch.float32, 2), (torch.bfloat16, 4)])],
)
def test_the_whole_in_its_precision_and_in_a_half_one_first_layers_in_float32(settings, tried, precision, wanted):
    made = scorer(settings, precision)
    assert isinstance(made, BatchedScorer)
    assert tried == wanted


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_one_norm_without_its_noise_is_seen(settings, tried, precision, monkeypatch):
    real = perturbed.PerturbedForward.product

    def lacking(self, one, other):
        place = self._place(one)
        if place is not None and place.name == "pretrained.model.layers.1.input_layernorm.weight":
            return one.to(other.dtype) * self._both_sides(other)
        return real(self, one, other)

    for function in perturbed.PRODUCTS:
        monkeypatch.setitem(perturbed.HANDLERS, function, lacking)
    monkeypatch.setattr(trial, "WAYS", trial.WAYS[:2])
    assert isinstance(scorer(settings, precision), MemberScorer)
