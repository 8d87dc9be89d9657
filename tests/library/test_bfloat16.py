"""A module in bfloat16: it stays so, learns, and its state resumes; what does not fit is one line."""

import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.scoring import trial
from neuro_cli.scoring.passes import dense

X = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).bfloat16()


def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(module(inputs).float(), targets, reduction="none")


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank", "sign_flip"])
def test_it_learns_and_stays_in_bfloat16_with_the_same_bits_by_any_threads(sampler):
    centres = []
    for threads in (1, 2):
        module = net()
        with neuro_cli.Evolution(module, sampler=sampler, population=32, sigma=0.1, lr=0.05, threads=threads) as evolution:
            reports = [evolution.step(fitness, X, Y) for _ in range(40)]
        assert {parameter.dtype for parameter in module.parameters()} == {torch.bfloat16}
        assert (module(X.bfloat16()).argmax(1) == Y).float().mean() > 0.85
        assert reports[-1].fitness_mean > reports[0].fitness_mean
        centres.append(evolution.centre)
    assert torch.equal(*centres)


def test_members_of_a_large_one_share_passes_after_a_trial_of_its_first_layers_in_float32(monkeypatch, caplog):
    monkeypatch.setattr(trial, "HEAVY", 64)
    monkeypatch.setattr(dense, "LARGE", 64)
    caplog.set_level(logging.INFO)
    with neuro_cli.Evolution(net(), sampler="low_rank", population=8, sigma=0.1, threads=1) as evolution:
        evolution.step(fitness, X[:4], Y[:4])
    assert "members in one forward pass on cpu, 1 threads, bfloat16" in caplog.text
    assert "one by one" not in caplog.text


def test_members_are_scored_in_its_type_and_ask_and_tell_follow():
    seen = set()

    def closure(member: nn.Module) -> float:
        seen.add(next(member.parameters()).dtype)
        return -float(member(X.bfloat16()).float().square().mean())

    with neuro_cli.Evolution(net(), population=8) as evolution:
        evolution.step(closure)
        evolution.tell([closure(candidate) for candidate in evolution.ask()])
        assert seen == {torch.bfloat16}
        state = evolution.state_dict()
        assert state["tensors"]["parameters"].dtype == torch.bfloat16
        after = net()
        with neuro_cli.Evolution(after, population=8) as other:
            other.load_state_dict(state)
            for each in (evolution, other):
                each.step(closure)
        assert torch.equal(evolution.centre, other.centre)
    with neuro_cli.Evolution(net().float(), population=8) as other, pytest.raises(ConfigError, match="saved state has bfloat16"):
        other.load_state_dict(state)


@pytest.mark.parametrize("algo", ["snes", "genetic", "xnes", "cma_es", "cr_fm_nes", "sep_cma_es"])
def test_an_algorithm_that_needs_float32_is_one_line(algo):
    refused = pytest.raises(ConfigError, match="keeps a centre in float32")
    with neuro_cli.Evolution(net(), algo=algo, population=16) as evolution, refused:
        evolution.step(fitness, X, Y)


def test_other_types_and_mixed_ones_are_one_line():
    with pytest.raises(UserError, match=r"is torch.float16; evolved parameters must be torch.float32 or torch.bfloat16"):
        neuro_cli.Evolution(net().half())
    with pytest.raises(UserError, match=r"is torch.complex64; .* hold torch.view_as_real of it, and use torch.view_as_complex"):
        neuro_cli.Evolution(torch.nn.Linear(2, 2, dtype=torch.complex64))
    mixed = net()
    mixed[2].float()
    with pytest.raises(UserError, match=r"parameter 2.weight is torch.float32, 0.weight torch.bfloat16; .* of one type"):
        neuro_cli.Evolution(mixed)
