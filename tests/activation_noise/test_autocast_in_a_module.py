"""Noise on activations of modules that enter autocast themselves."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from neuro_cli import ForwardGradient


class Autocasting(nn.Module):
    """A cell and a head in half precision, entered in the forward pass."""

    def __init__(self, cell):
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.head = cell(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self.cell(x)
            return self.head(hidden[0] if isinstance(hidden, tuple) else hidden).float()


@pytest.mark.parametrize("cell", [nn.Linear, nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_the_estimate_is_the_gradient_where_the_module_autocasts(cell):
    """A replay of recorded calls would be outside of the module's context: torch refuses their types."""

    def losses(outputs, targets):
        return (outputs - targets).square().mean(1)

    net = Autocasting(cell)
    x, y = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), torch.ones(8, 2)
    ForwardGradient(net, draws=200, antithetic=True).backward(losses, x, y)
    estimate = torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
    gradients = torch.autograd.grad(losses(net(x), y).mean(), list(net.parameters()))
    assert F.cosine_similarity(estimate, torch.cat([part.flatten() for part in gradients]), 0) > 0.95
