"""Layers of sign flips with the members' own weights, and of rows that repeat: chosen by shapes, the numbers of plain ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import neuro_cli as neuro
from neuro_cli.core.linear import LinearLayer
from neuro_cli.core.rows import MemberBatch, repeated
from neuro_cli.sampler import sign_flip


def parameters(examples: int, threads: int) -> torch.Tensor:
    """Return the parameters after two generations of a network with so many rows a member."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(40, 70), nn.Tanh(), nn.Linear(70, 5))
    x, y = torch.randn(examples, 40), torch.arange(examples) % 5
    evolution = neuro.Evolution(module, population=64, sampler="sign_flip", threads=threads)
    for _ in range(2):
        evolution.step(lambda member, x, y: -F.cross_entropy(member(x), y, reduction="none"), x, y)
    return evolution.centre


@pytest.mark.parametrize(("examples", "own"), [(12, False), (20, True)])
def test_members_of_many_rows_have_their_own_weights(monkeypatch, examples, own):
    calls, add = [], LinearLayer.add_own
    monkeypatch.setattr(LinearLayer, "add_own", lambda self, *given: (calls.append(len(self.x)), add(self, *given)))
    made = parameters(examples, threads=1)
    # the first layer's input is that of all members: one product with the noise serves both sides there
    assert bool(calls) == own
    assert torch.equal(made, parameters(examples, threads=2))
    monkeypatch.setattr(sign_flip, "OWN_ROWS", 1000)
    torch.testing.assert_close(made, parameters(examples, threads=1), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("sides", [1, 2])
def test_rows_that_repeat_meet_the_centre_once(sides):
    """More rows than a block has, of one side for two, and of all sides."""
    rows = MemberBatch((0.5, -0.25)[:sides], 90, 7)
    x, weight, bias, factors = torch.randn(7, 33), torch.randn(19, 33), torch.randn(19), torch.randn(90, 33 + 19)
    made, wanted = (
        LinearLayer(rows, given, weight, bias).low_rank(factors, None, (19, 0), 1, 1.0)
        for given in (repeated(x, 90), x.repeat(90, 1))
    )
    torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-4)
    plain = F.linear(x, weight, bias).repeat(90 * sides, 1)
    assert not torch.allclose(made, plain)
