"""Recurrent layers in the pass that needs no map: by one compiled loop with dense noise, step by step with reused noise."""

import copy

import pytest
import torch
from test_small import SAMPLERS, evolution, negative_squares, scorers, share_passes
from torch import Tensor, nn

from neuro_cli.core.kernels import tiles
from neuro_cli.sampler import dense
from neuro_cli.scoring import chunk_size
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.perturbed import PerturbedForward


class Layers(nn.Module):
    """Outputs and last states of a recurrent layer on three steps of two numbers; ``begins`` with zeros, data or a parameter."""

    def __init__(self, kind: str = "GRU", begins: str = "", **options: object) -> None:
        super().__init__()
        self.layer, self.begins = getattr(nn, kind)(2, 5, **options), begins
        runs, outputs = self.layer.num_layers * (1 + self.layer.bidirectional), self.layer.proj_size or 5
        self.first = nn.Parameter(torch.ones(runs, 1, 5)) if begins == "parameter" else None
        self.head = nn.Linear(outputs * (1 + self.layer.bidirectional), 3)

    def forward(self, x: Tensor) -> Tensor:
        steps, size = x.unflatten(1, (3, 2)), (self.layer.num_layers * (1 + self.layer.bidirectional), len(x), 5)
        first = None if self.first is None else self.first.expand(size).contiguous()
        if self.begins == "data":
            first = x[:, :1].t().unsqueeze(2).expand(size).contiguous()
            first = (first, 0.5 * first) if isinstance(self.layer, nn.LSTM) else first
        given = steps if self.layer.batch_first else steps.transpose(0, 1)
        outputs, last = self.layer(given, first)
        outputs = outputs.mean(1 if self.layer.batch_first else 0)
        return self.head(outputs) + (last[1] if isinstance(last, tuple) else last)[-1].mean(-1, keepdim=True)


class Steps(nn.Module):
    """Three steps of a cell."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell, self.head = getattr(nn, f"{kind}Cell")(2, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for step in x.unflatten(1, (3, 2)).unbind(1):
            state = self.cell(step, state)
        return self.head(state[0] if isinstance(state, tuple) else state)


@pytest.fixture(autouse=True)
def loops(monkeypatch) -> list[int]:
    """Numbers of the cells that the compiled loop was called for; it serves small populations."""
    monkeypatch.setattr(dense, "ENOUGH", 0)
    kinds, own = [], dense.DensePerturbation.recurrence

    def recurrence(self, kind, *rest):
        made = own(self, kind, *rest)
        kinds.extend([kind] if made is not None else [])
        return made

    monkeypatch.setattr(dense.DensePerturbation, "recurrence", recurrence)
    return kinds


MODULES = {
    "gru": lambda: Layers(batch_first=True), "lstm": lambda: Layers("LSTM"), "rnn": lambda: Layers("RNN", bias=False),
    "relu": lambda: Layers("RNN", nonlinearity="relu", batch_first=True),
    "two layers, both ways": lambda: Layers("LSTM", num_layers=2, bidirectional=True),
    "begins with data": lambda: Layers("GRU", "data", bidirectional=True), "memory": lambda: Layers("LSTM", "data"),
    "frozen": lambda: frozen(Layers("GRU"), "layer.weight_ih_l0", "layer.bias_hh_l0"),
}  # fmt: skip


def frozen(module: nn.Module, *names: str) -> nn.Module:
    for name in names:
        module.get_parameter(name).requires_grad_(False)
    return module


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", MODULES)
def test_members_of_recurrent_layers_have_the_scores_of_single_ones(kind, sampler, loops):
    torch.manual_seed(0)
    es = evolution(MODULES[kind](), 5, sampler=sampler)
    share_passes(es)
    assert scorers(es)[0]._way.forward is PerturbedForward
    assert bool(loops) == (sampler not in ("low_rank", "sign_flip"))


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_members_of_cells_have_the_scores_of_single_ones(kind, sampler):
    es = evolution(Steps(kind), 5, sampler=sampler)
    share_passes(es)
    assert scorers(es)[0]._way.forward is PerturbedForward


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_a_state_that_is_a_parameter_is_left_to_the_map(sampler, loops):
    es = evolution(Layers(begins="parameter"), 5, sampler=sampler)
    share_passes(es)
    assert scorers(es)[0]._way.forward is MappedForward
    assert not loops


@pytest.mark.parametrize("sampler", ["antithetic", "low_rank"])
def test_projected_states_go_step_by_step(sampler, loops):
    es = evolution(Layers("LSTM", proj_size=3), 5, sampler=sampler)
    share_passes(es)
    assert scorers(es)[0]._way.forward is PerturbedForward
    assert not loops


def test_members_of_more_products_share_passes_where_the_loop_serves_them(monkeypatch, loops):
    """Layers whose weights each step would compute again do not."""
    monkeypatch.setattr(tiles, "FASTER", True)
    monkeypatch.setattr(chunk_size, "SMALL", 100)
    es = evolution(Layers(), 13)
    share_passes(es)
    assert loops
    for module in (Layers(begins="parameter"), Layers("LSTM", proj_size=3), Steps("GRU")):
        assert type(scorers(evolution(module, 13))[0]) is MemberScorer


def test_each_example_has_noise_of_its_own():
    share_passes(evolution(Layers(), 24, layout="per_example"))


@pytest.mark.parametrize("sampler", ["antithetic", "sign_flip"])
def test_bits_depend_neither_on_threads_nor_on_a_generation_that_is_followed(sampler):
    torch.manual_seed(0)
    module, centres = Layers("LSTM", batch_first=True), []
    for threads in (1, 2):
        es = evolution(copy.deepcopy(module), 5, population=512, threads=threads, sampler=sampler)
        es.step(negative_squares, *es.data)
        centres.append(es.centre)
    assert torch.equal(*centres)
    (scorer, _), proposal = scorers(es), es._algo.ask(2)
    made = []
    for scorer._careful in (True, False):
        scorer._generations = 17
        made.append(torch.from_numpy(scorer.scores(proposal, 2, range(512))))
    assert torch.equal(*made)
