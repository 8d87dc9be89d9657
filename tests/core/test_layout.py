"""Parameters as one vector: order, ties, buffers, and what is refused."""

import pytest
import torch
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.frozen = nn.Linear(2, 2).requires_grad_(False)


def test_flat_vector_holds_each_trainable_number_once_and_round_trips():
    module = Tied()
    layout = ParameterLayout(module)
    assert layout.size == 3 * 2 * 9 + 3 + 16 + 4 + 4
    flat = layout.flatten(module)
    other = Tied()
    layout.load(other, flat)
    assert torch.equal(other.conv.weight, module.conv.weight)
    assert other.second.weight is other.first.weight
    assert torch.equal(layout.flatten(other), flat)
    assert not torch.equal(other.frozen.weight, module.frozen.weight)


def test_attached_module_follows_the_vector_and_convolutions_lie_channels_last():
    module = Tied()
    layout = ParameterLayout(module)
    flat = layout.flatten(module)
    layout.attach(module, flat)
    flat.mul_(2)
    assert torch.equal(layout.flatten(module), flat)
    assert module.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert flat[1] == module.conv.weight[0, 1, 0, 0]  # the input channel runs fastest


def test_views_tile_the_vector():
    layout = ParameterLayout(Tied())
    flat = torch.zeros(layout.size)
    for view in layout.views(flat):
        view += 1
    assert torch.equal(flat, torch.ones(layout.size))


@pytest.mark.parametrize("module", [nn.ReLU(), nn.Linear(2, 2).double()])
def test_modules_without_float32_parameters_are_refused(module):
    with pytest.raises(UserError, match="model"):
        ParameterLayout(module)
