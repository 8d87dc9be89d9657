"""Experts whose rows a module sorts by integers: rows of all members that are put back count, others step aside."""

import copy
import logging

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro

MEMBERS = 8


def put_back_by_places(y: Tensor, perm: Tensor) -> Tensor:
    inverse = torch.empty_like(perm)
    inverse[perm] = torch.arange(len(perm))
    return y[inverse]


ENDS = {
    "places": put_back_by_places,
    "sorted again": lambda y, perm: y[torch.argsort(perm)],
    "added": lambda y, perm: torch.zeros_like(y).index_add_(0, perm, y),
    "written": lambda y, perm: torch.zeros_like(y).index_put_((perm,), y),
    "never": lambda y, perm: y,
    "twice": lambda y, perm: put_back_by_places(y, perm)[perm],
}
BACK = ("places", "sorted again", "added", "written")


class Experts(nn.Module):
    """Frozen experts, one for each example, whose rows are sorted by a gate; ``end``: how they come back."""

    def __init__(self, end: str) -> None:
        super().__init__()
        self.first, self.gate, self.last, self.end = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 3), end
        self.register_buffer("experts", torch.randn(4, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        ids, perm = self.gate(h).argmax(-1).sort()
        y = torch.einsum("ni,nio->no", h[perm], self.experts[ids])
        if self.end == "before a layer":  # whose noise is a member's at its rows
            return put_back_by_places(self.last(y), perm)
        if self.end == "mixed":
            y = h + 1e-9 * y
        return self.last(ENDS.get(self.end, put_back_by_places)(y, perm))


def copied(y: Tensor) -> Tensor:
    z = torch.zeros(y.shape)
    z[:] = y
    return z


def set_by(numbers: Tensor, y: Tensor) -> Tensor:
    z = torch.zeros(y.shape)
    z[numbers] = y
    return z


# from sorted rows y of a mixture, its places and numbers, and the places of another gate: rows as they were
WAYS = {
    "grouped": lambda y, perm, numbers, other: put_back_by_places(y, perm),
    "grouped and added": lambda y, perm, numbers, other: torch.zeros(len(y) // 2, 8).index_add_(0, perm // 2, y),
    "other places": lambda y, perm, numbers, other: put_back_by_places(y, other),
    "other shares": lambda y, perm, numbers, other: torch.zeros(len(y) // 2, 8).index_add_(0, perm // 4, y),
    "places as numbers": lambda y, perm, numbers, other: put_back_by_places(y + 1e-9 * perm[:, None], perm),
    "apart": lambda y, perm, numbers, other: y.view(len(y) // 2, 2, -1).sum(1),
    "copied": lambda y, perm, numbers, other: copied(y),
    "by numbers": lambda y, perm, numbers, other: set_by(numbers, y),
}
PRODUCTS = ("counts of others", "unsorted rows", "descending", "counts of half the numbers")


class Mixture(nn.Module):
    """Frozen experts, two for each example, as products of rows that integers sorted: one product for each expert."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.first, self.gate, self.other, self.last = (nn.Linear(8, size) for size in (8, 4, 4, 3))
        self.way = way
        self.register_buffer("experts", torch.randn(4, 8, 8))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        ids, others = (gate(h).topk(2).indices.flatten() for gate in (self.gate, self.other))
        numbers, perm = ids.sort(descending=True) if self.way == "descending" else ids.sort()
        counted = {"counts of others": others, "counts of half the numbers": numbers // 2}.get(self.way, numbers)
        offsets = torch.histc(counted.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
        rows = torch.cat([h, h], 1).view(-1, 8) if self.way == "unsorted rows" else h[perm // 2]
        y = F.grouped_mm(rows, self.experts, offs=offsets)
        if self.way == "unsorted rows":
            return self.last(y.view(len(h), 2, -1).sum(1))
        y = WAYS.get(self.way, WAYS["grouped"])(y, perm, numbers, others.argsort())
        return self.last(y.view(len(h), 2, -1).sum(1) if len(y) > len(h) else y)


@pytest.mark.parametrize("end", [*ENDS, "before a layer", "mixed"])
def test_rows_that_integers_sort_are_put_back_or_step_aside(end, caplog):
    torch.manual_seed(0)
    aside = aside_of(Experts(end), caplog)
    assert len(aside) == (end not in BACK)
    assert not aside or "integers of all members" in aside[0]


@pytest.mark.parametrize("way", [*WAYS, *PRODUCTS])
def test_sorted_rows_of_grouped_products_are_put_back_or_step_aside(way, caplog):
    torch.manual_seed(0)
    aside = aside_of(Mixture(way), caplog)
    assert len(aside) == (not way.startswith("grouped"))
    assert not aside or "of all members" in aside[0]


def aside_of(net: nn.Module, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Compare scores of a step with those of networks of their own; return why members had no pass of their own kind."""
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    fitness = lambda member, x, y: -F.cross_entropy(member(x), y, reduction="none")  # noqa: E731
    options = {"sampler": "low_rank", "population": MEMBERS, "sigma": 0.3, "seed": 0, "threads": 1}
    with neuro.Evolution(copy.deepcopy(net), **options) as es, torch.no_grad():
        own = [float(fitness(member, x, y).mean()) for member in es.ask()]
    with neuro.Evolution(net, **options) as es, caplog.at_level(logging.INFO):
        report = es.step(fitness, x, y)
    assert (report.fitness_mean, report.fitness_best) == pytest.approx((sum(own) / MEMBERS, max(own)), abs=1e-5)
    return [record.getMessage() for record in caplog.records if "not by PerturbedForward:" in record.getMessage()]
