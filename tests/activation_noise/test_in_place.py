"""Parameters that a network writes into its activations: scores and gradients are those of the network as it is."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.errors import UserError


class Net(nn.Module):
    """Two layers, then what ``change`` makes of their outputs, then the last layer."""

    def __init__(self, change: Callable[["Net", Tensor], Tensor]) -> None:
        super().__init__()
        self.i, self.a, self.o = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 3)
        self.p, self.change = nn.Parameter(torch.randn(16)), change

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.change(self, self.a(self.i(x).tanh())).tanh())


def added(net: Net, h: Tensor) -> Tensor:
    h += net.p
    return h


def added_by_statement(net: Net, h: Tensor) -> Tensor:
    h.add_(net.p)
    return h


def multiplied(net: Net, h: Tensor) -> Tensor:
    h.mul_(net.p)
    return h


def added_to_a_view(net: Net, h: Tensor) -> Tensor:
    h[:, :8].add_(net.p[:8])
    return h


def added_to_columns(net: Net, h: Tensor) -> Tensor:
    h[:, :8] += net.p[:8]
    return h


def set_before_a_product(net: Net, h: Tensor) -> Tensor:
    h[:, 0] = 0.5
    return h * net.p


def put(net: Net, h: Tensor) -> Tensor:
    h[:, :8] = net.p[:8]
    return h


def scaled_and_added(net: Net, h: Tensor) -> Tensor:
    return torch.addcmul(h, h, net.p, value=0.5)


def divided_and_added(net: Net, h: Tensor) -> Tensor:
    return h.addcdiv_(h.tanh(), 2 + net.p.square())


def between(net: Net, h: Tensor) -> Tensor:
    return torch.lerp(h, torch.tanh(h), net.p)


def matrix_added(net: Net, h: Tensor) -> Tensor:
    return torch.addmm(h, h.tanh(), net.a.weight, beta=0.5) + net.p


def matrices_added(net: Net, h: Tensor) -> Tensor:
    rows = h.unflatten(1, (4, 4))
    return torch.baddbmm(net.p.view(1, 4, 4), rows, rows.tanh(), alpha=2).flatten(1)


def mixed(net: Net, h: Tensor) -> Tensor:
    return torch.einsum("bi, bi, i -> bi", h, h, net.p)


def mixed_by_a_matrix(net: Net, h: Tensor) -> Tensor:
    return torch.einsum("...i,ij,...j->...ij", h.tanh(), net.a.weight, h).mean(1) + net.p


def bilinear(net: Net, h: Tensor) -> Tensor:
    return F.bilinear(h[:, :4], h[:, 4:8].tanh(), net.a.weight.view(16, 4, 4), net.p)


def limited(net: Net, h: Tensor) -> Tensor:
    return torch.clamp(h, net.p - 9, h.tanh() + 9)


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(64, 8), torch.randint(0, 3, (64,))


WRITES = (added, added_by_statement, multiplied, added_to_a_view, added_to_columns, set_before_a_product)
SUMS = (scaled_and_added, divided_and_added, between, matrix_added, matrices_added, mixed, mixed_by_a_matrix, bilinear)


def compare(net: nn.Module, steps: int, least: float, **options: Any) -> None:
    """Compare the loss and the gradient of the last of some estimates with autograd's."""
    x, targets = data()
    estimate = neuro.ForwardGradient(net, seed=1, threads=1, **options)
    for _ in range(steps):
        net.zero_grad()
        mean = estimate.backward(loss, x, targets)
    given = {name: parameter.grad.clone() for name, parameter in net.named_parameters()}
    net.zero_grad()
    wanted = loss(net(x), targets).mean()
    wanted.backward()
    assert float(mean) == pytest.approx(float(wanted), abs=1e-5)
    for name, parameter in net.named_parameters():
        assert F.cosine_similarity(given[name].flatten(), parameter.grad.flatten(), 0) > least, name


@pytest.mark.parametrize(
    ("least", "options"), [(0.99, {"draws": 1}), (0.8, {"draws": 64, "control_variates": False})], ids=["default", "noise"]
)
@pytest.mark.parametrize("change", WRITES)
def test_gradients_and_losses_are_those_of_the_network_as_it_is(change, least, options):
    compare(Net(change), 2, least, **options)


@pytest.mark.parametrize("change", SUMS)
def test_predictions_alone_pass_through_sums_of_products(change, caplog):
    compare(Net(change), 4, 0.99, draws=1, correction="never")
    assert "do not reach" not in caplog.text


def test_a_parameter_that_is_put_into_activations_is_refused():
    x, targets = data()
    with pytest.raises(UserError, match="__setitem__ writes a parameter into data of the examples"):
        neuro.ForwardGradient(Net(put), seed=1, threads=1).backward(loss, x, targets)


def test_parameters_that_predictions_do_not_reach_are_named(caplog):
    x, targets = data()
    with caplog.at_level(logging.WARNING):
        neuro.ForwardGradient(Net(limited), draws=1, seed=1, threads=1, correction="never").backward(loss, x, targets)
    (said,) = [record.getMessage() for record in caplog.records if "do not reach" in record.getMessage()]
    assert said.endswith("which stay as they are: i.weight, i.bias, a.weight, a.bias")


class Part(nn.Module):
    """A copy of activations, a part of which is overwritten by a layer: noise in that layer alone meets a tensor without any."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gain = nn.Linear(8, 16), nn.Parameter(torch.ones(1))
        self.hidden, self.last = nn.Linear(16, 8), nn.Linear(8, 3)  # with two layers more a trial has no pass of that noise alone

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        made = h.clone()
        made[:, :8] = h[:, :8] * self.gain
        return self.last(torch.tanh(self.hidden(made)))


@pytest.mark.parametrize("options", [{"control_variates": False}, {"correction": "always"}])
def test_noise_that_is_written_into_a_tensor_without_noise(options, caplog):
    compare(Part(), 2, 0.8, draws=64, schedule="one", **options)
    assert "passes of some layers run one after the other" in caplog.text
