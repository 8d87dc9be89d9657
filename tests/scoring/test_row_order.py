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


@pytest.mark.parametrize("end", [*ENDS, "before a layer", "mixed"])
def test_rows_that_integers_sort_are_put_back_or_step_aside(end, caplog):
    torch.manual_seed(0)
    net, x, y = Experts(end), torch.randn(16, 8), torch.randint(0, 3, (16,))
    fitness = lambda member, x, y: -F.cross_entropy(member(x), y, reduction="none")  # noqa: E731
    options = {"sampler": "low_rank", "population": MEMBERS, "sigma": 0.3, "seed": 0, "threads": 1}
    with neuro.Evolution(copy.deepcopy(net), **options) as es, torch.no_grad():
        own = [float(fitness(member, x, y).mean()) for member in es.ask()]
    with neuro.Evolution(net, **options) as es, caplog.at_level(logging.INFO):
        report = es.step(fitness, x, y)
    assert (report.fitness_mean, report.fitness_best) == pytest.approx((sum(own) / MEMBERS, max(own)), abs=1e-5)
    aside = [record.getMessage() for record in caplog.records if "not by PerturbedForward:" in record.getMessage()]
    assert len(aside) == (end not in BACK)
    assert not aside or "integers of all members" in aside[0]
