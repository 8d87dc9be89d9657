"""Errors of torch in passes that run without gradients or in half precision: one line that says what to change."""

import pytest
import torch
from torch import nn

from neuro_cli import Evolution, ForwardGradient, UserError, perturbed

X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), torch.ones(8, 2)


class Forces(nn.Module):
    """A network that answers with a derivative of its energy, as interatomic potentials do; ``asks`` for gradients itself."""

    def __init__(self, asks):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.asks = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), asks

    def forward(self, x):
        with torch.set_grad_enabled(self.asks or torch.is_grad_enabled()):
            x = x.clone().requires_grad_()
            return -torch.autograd.grad(self.layers(x).sum(), x)[0][:, :2]


class State(nn.Module):
    """A recurrent network that begins each pass with a state in float32."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.cell(x, torch.zeros(len(x), 4)))


def losses(outputs, targets):
    return (outputs - targets).square().mean(1)


def by_batch(net, **options):
    return Evolution(net, population=4, sigma=0.3, **options).step(lambda member, x, y: -losses(member(x), y), X, Y)


def by_closure(net, **options):
    return Evolution(net, population=4, sigma=0.3, **options).step(lambda member: -float(losses(member(X), Y).mean()))


def estimated(net, **options):
    ForwardGradient(net, **options).backward(losses, X, Y)


def answered(net):
    with perturbed(net, "antithetic", 4, shared=True):
        net(X)


@pytest.mark.parametrize("use", [by_batch, by_closure, estimated, answered])
def test_a_network_that_takes_a_derivative_without_gradients_is_told_how(use):
    with pytest.raises(UserError, match=r"Forces: passes run without gradients: put `with torch.enable_grad\(\):` around"):
        use(Forces(asks=False))


@pytest.mark.parametrize("use", [by_batch, by_closure])
def test_members_of_a_network_that_asks_for_gradients_are_right(use):
    evolution = Evolution(Forces(asks=True), population=4, sigma=0.3)
    wanted = [-float(losses(member(X), Y).mean()) for member in evolution.ask()]
    report = use(Forces(asks=True))
    assert (report.fitness_mean, report.fitness_best) == pytest.approx((sum(wanted) / 4, max(wanted)), rel=1e-5)


def test_noise_on_activations_refuses_a_derivative_that_a_pass_takes():
    with pytest.raises(UserError, match=r"^sampler=activation: its noise does not follow a derivative that a pass takes"):
        estimated(Forces(asks=True))


@pytest.mark.parametrize("use", [by_batch, by_closure, estimated])
def test_a_state_in_float32_is_named_in_half_precision(use):
    with pytest.raises(UserError, match=r"State: precision=bfloat16: tensors that a pass creates need the type of its input"):
        use(State(), precision="bfloat16")


def test_other_errors_of_a_network_stay_what_they_are():
    net = nn.Linear(4, 2)  # of another width
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        by_closure(net)
