"""Layers whose rows are positions of all examples: any first batch shows which rows are an example's."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.errors import UserError


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


class Windows(nn.Module):
    """Two windows of three positions, window first, with a residual layer that may be zero."""

    def __init__(self, gain: float) -> None:
        super().__init__()
        self.a, self.b, self.o = nn.Linear(5, 7), nn.Linear(7, 5), nn.Linear(5, 3)
        with torch.no_grad():
            self.b.weight.mul_(gain)
            self.b.bias.mul_(gain)

    def forward(self, x: Tensor) -> Tensor:
        h = x.view(len(x), 2, 3, 5).transpose(0, 1).reshape(-1, 3, 5)
        h = h + self.b(torch.tanh(self.a(h)))
        return self.o(h.view(2, -1, 3, 5).transpose(0, 1).reshape(len(x), 6, 5).tanh().mean(1))


class Words(nn.Module):
    """Positions first, all in one axis."""

    def __init__(self) -> None:
        super().__init__()
        self.e, self.a, self.o = nn.Embedding(9, 5), nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.tanh(self.a(self.e(x).transpose(0, 1).reshape(-1, 5)))
        return self.o(rows.view(x.shape[1], -1, 7).mean(0))


def cosines(module: nn.Module, x: Tensor, targets: Tensor) -> dict[str, float]:
    """Cosine of each parameter's gradient with that of autograd, where there is one."""
    given = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    module.zero_grad()
    loss(module(x), targets).mean().backward()
    parts = {name: (given[name].flatten(), parameter.grad.flatten()) for name, parameter in module.named_parameters()}
    return {name: float(F.cosine_similarity(one, other, 0)) for name, (one, other) in parts.items() if other.any()}


@pytest.mark.parametrize("gain", [1.0, 0.0])
@pytest.mark.parametrize("first", ["zeros", "unequal"])
def test_the_first_batch_and_zero_weights_do_not_decide_which_rows_are_an_examples(first, gain):
    torch.manual_seed(1)
    module, x, targets = Windows(gain), torch.randn(32, 6, 5), torch.randint(0, 3, (32,))
    estimate = neuro.ForwardGradient(module, draws=1, seed=1, threads=1)
    if first == "zeros":
        estimate.backward(loss, torch.zeros_like(x), targets)
        module.zero_grad()
    estimate.backward(loss, x, targets)  # the first one of unequal examples is right for layers far from the reward too
    found = cosines(module, x, targets)
    assert {"b.weight", "o.weight"} <= set(found)
    assert min(found.values()) > 0.99, found


@pytest.mark.parametrize("space", ["auto", "outputs"])
def test_an_estimate_by_noise_alone_is_the_same_after_a_first_batch_of_zeros(space):
    x, targets, gradients = torch.randn(8, 6, 5), torch.randint(0, 3, (8,)), []
    for first in (torch.randn(8, 6, 5), torch.zeros(8, 6, 5)):
        torch.manual_seed(1)
        module = Windows(1.0)
        estimate = neuro.ForwardGradient(module, draws=1, seed=1, threads=1, control_variates=False, space=space)
        estimate.backward(loss, first, targets)
        module.zero_grad()
        estimate.backward(loss, x, targets)
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in module.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-6)


def test_words_that_are_all_equal_are_refused_where_they_hide_the_order_of_rows():
    torch.manual_seed(1)
    module, x, targets = Words(), torch.randint(0, 9, (8, 4)), torch.randint(0, 3, (8,))
    with pytest.raises(UserError, match=r"layer 2 are all equal .* the first batch needs examples that differ"):
        neuro.ForwardGradient(module, draws=1, seed=1, threads=1).backward(loss, torch.zeros_like(x), targets)
    estimate = neuro.ForwardGradient(module, draws=1, seed=1, threads=1)
    estimate.backward(loss, x, targets)
    assert min(cosines(module, x, targets).values()) > 0.99


def test_inputs_that_are_all_zero_leave_noise_on_weights_a_size():
    """Without a bias such noise adds nothing to the outputs, in the first batch or in a later one."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(98, 3))
    estimate = neuro.ForwardGradient(module, draws=1, seed=1, threads=1, control_variates=False, space="auto")
    for x in (torch.zeros(4, 1, 8, 8), torch.randn(4, 1, 8, 8), torch.zeros(4, 1, 8, 8)):
        module.zero_grad()
        estimate.backward(loss, x, torch.arange(4) % 3)
        assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
        assert bool(module[0].weight.grad.any()) == bool(x.any())


class Moving(nn.Module):
    """A buffer that moves by the examples, and does not by zeros."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 3)
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.first(x - self.mean)


def test_a_state_that_moves_is_refused_after_a_first_batch_of_zeros_too():
    for first in (torch.zeros(8, 5), torch.randn(8, 5)):
        with pytest.raises(UserError, match="all passes of a generation must be alike, and one of Moving changes mean of Moving"):
            neuro.ForwardGradient(Moving(), seed=1, threads=1).backward(loss, first, torch.arange(8) % 3)
