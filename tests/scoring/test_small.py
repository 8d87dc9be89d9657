"""Small networks on a CPU: their members share passes, with the scores of single members, by counted products alone."""

import copy
import logging
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.algo.base import Proposal
from neuro_cli.core.kernels import tiles
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.sampler import dense
from neuro_cli.scoring import chunk_size
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes.tangent import tanh

SAMPLERS = ("antithetic", "iid", "low_rank", "sign_flip", "noise_table")


def policy() -> nn.Sequential:
    middle = nn.Linear(12, 12, bias=False)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), middle, nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 3))


def negative_squares(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return -(member(x).flatten(1) - y).square().mean(1)


def evolution(module: nn.Module, examples: int, **options) -> neuro.Evolution:
    """Evolution after a generation; its data are on it."""
    generator = torch.Generator().manual_seed(1)
    es = neuro.Evolution(module, **{"population": 16, "sigma": 0.1, "threads": 1} | options)
    es.data = torch.randn(examples, 6, generator=generator), torch.randn(examples, 3, generator=generator)
    es.step(negative_squares, *es.data)
    return es


def scorers(es: neuro.Evolution) -> tuple[BatchedScorer, MemberScorer]:
    """Scorer of the generation, and a new one of single members."""
    (scorer,) = es._population.distribution.job.scorer._scorers.values()
    return scorer, MemberScorer(scorer.settings, es._population.algo.centre)


def share_passes(es: neuro.Evolution, proposal: Proposal | None = None) -> None:
    """Members in passes have the scores of single ones."""
    many, single = scorers(es)
    assert type(many) is BatchedScorer
    proposal = proposal or es._algo.ask(1)
    assert many.refuses(proposal) is None
    with torch.no_grad():
        found, wanted = (scorer.scores(proposal, 1, range(16)) for scorer in (many, single))
    np.testing.assert_allclose(found, wanted, rtol=2e-5)


@pytest.fixture(params=[2**20, 0], ids=["two products", "own weights"])
def examples(request, monkeypatch) -> int:
    monkeypatch.setattr(dense, "ENOUGH", request.param)
    return 12


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_members_that_share_a_pass_have_the_scores_of_single_ones(sampler, examples):
    share_passes(evolution(policy(), examples, sampler=sampler))


@pytest.mark.parametrize("sampler", ["antithetic", "iid", "noise_table"])
def test_dense_noise_takes_a_step_size_for_each_parameter(sampler, examples):
    es = evolution(policy(), examples, sampler=sampler)
    scale = torch.rand(es.centre.numel(), generator=torch.Generator().manual_seed(2)) * 0.2 + 0.01
    share_passes(es, Proposal.around(es.centre, scale))


def test_a_transformer_shares_passes_with_dense_noise(examples):
    model = CharGPT(11, 8, width=8, depth=1, heads=2)
    tokens = torch.randint(11, (6, 8), generator=torch.Generator().manual_seed(1))

    def fitness(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return -nn.functional.cross_entropy(member(x).transpose(1, 2), y, reduction="none").mean(1)

    es = neuro.Evolution(model, population=16, sigma=0.1, threads=1)
    es.step(fitness, tokens, tokens.roll(-1, 1))
    share_passes(es)


@pytest.mark.parametrize("algo", ["openai_es", "snes", "pgpe"])
def test_a_run_has_the_same_bits_on_any_number_of_threads(algo, examples):
    first = policy()
    centres = []
    for threads in (1, 2, 3):
        es = evolution(copy.deepcopy(first), examples, threads=threads, algo=algo, sigma=None, sampler="antithetic")
        es.step(negative_squares, *es.data)
        centres.append(es.centre)
    assert all(torch.equal(centre, centres[0]) for centre in centres)


def test_counted_products_choose(monkeypatch, caplog):
    monkeypatch.setattr(tiles, "FASTER", False)
    monkeypatch.setattr(chunk_size, "SMALL", 291 * 12)  # numbers of the policy
    assert type(scorers(evolution(policy(), 12))[0]) is BatchedScorer
    assert type(scorers(evolution(policy(), 13))[0]) is MemberScorer
    monkeypatch.setattr(chunk_size, "SMALL", 10_000)
    with caplog.at_level(logging.INFO):
        scorer, _ = scorers(evolution(Convolved(), 8))
    assert type(scorer) is MemberScorer
    assert "would be slower here" in caplog.text  # 1,200 weights, each of them used 6 times


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNNCell(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x)


@pytest.mark.parametrize("sampler", ["antithetic", "iid", "noise_table"])
def test_linear_layers_share_passes_up_to_more_products_where_tiles_serve_them(sampler, monkeypatch):
    """In chunks of few directions; convolutions and recurrent cells do not."""
    monkeypatch.setattr(tiles, "FASTER", True)
    monkeypatch.setattr(dense, "ENOUGH", 0)
    monkeypatch.setattr(chunk_size, "SMALL", 100)
    monkeypatch.setattr(chunk_size, "SOME_PRODUCTS", 4 * 252 * 20)  # two mirrored pairs by the policy's products
    es = evolution(policy(), 20, sampler=sampler)
    assert scorers(es)[0]._length == (4 if sampler == "iid" else 2)
    share_passes(es)
    for module in (Convolved(), Recurrent()):
        assert type(scorers(evolution(module, 20, sampler=sampler))[0]) is MemberScorer
    assert type(scorers(evolution(policy(), 15, sampler=sampler))[0]) is MemberScorer  # tiles have no gain with so few rows
    with monkeypatch.context() as patch:
        patch.setattr(chunk_size, "TILED_WEIGHTS", 291)  # numbers of the policy
        assert type(scorers(evolution(policy(), 20, sampler=sampler))[0]) is MemberScorer
    monkeypatch.setattr(chunk_size, "TILED", 291 * 20 - 1)
    assert type(scorers(evolution(policy(), 20, sampler=sampler))[0]) is MemberScorer


def test_a_half_precision_has_no_tiles(monkeypatch):
    monkeypatch.setattr(tiles, "FASTER", True)
    monkeypatch.setattr(dense, "ENOUGH", 0)
    settings = scorers(evolution(policy(), 20))[0].settings
    assert chunk_size.most_products(settings) == chunk_size.TILED
    assert chunk_size.most_products(replace(settings, precision=torch.bfloat16)) == chunk_size.SMALL
    monkeypatch.setattr(tiles, "FASTER", False)
    assert chunk_size.most_products(settings) == chunk_size.SMALL


class Convolved(nn.Module):
    """Convolution by a function, whose products a trial alone counts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(400, 1, 3))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv1d(x[:, None], self.weight, padding=1).mean(2)[:, :3]


def test_a_module_that_cannot_share_a_pass_on_a_cpu_says_so_without_a_warning(caplog):
    class Centred(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            made = self.layer(x)
            return made - made[:1] if made.mean().item() < math.inf else made

    with caplog.at_level(logging.INFO):
        scorer, _ = scorers(evolution(Centred(), 4))
    assert type(scorer) is MemberScorer
    (line,) = [record for record in caplog.records if "one by one, slower" in record.getMessage()]
    assert line.levelno == logging.INFO


def test_a_tangent_has_the_bits_of_its_number_wherever_it_lies():
    x = torch.randn(3, 1013) * 4
    x[0, :4] = torch.tensor([math.nan, math.inf, -math.inf, -0.0])
    made = tanh(x)
    torch.testing.assert_close(made, torch.tanh(x), rtol=3e-7, atol=0, equal_nan=True)
    assert all(torch.equal(tanh(part).nan_to_num(), made[1, begin : begin + len(part)].nan_to_num())
               for begin in (0, 1, 7, 1000) for part in (x[1, begin : begin + 13].clone(),))  # fmt: skip
    assert torch.equal(tanh(x.double())[1:], torch.tanh(x.double())[1:])
    assert torch.equal(tanh(x.T), tanh(x).T) or torch.allclose(tanh(x.T), tanh(x).T, equal_nan=True)
