"""Copies of modules that deepcopy alone refuses, and memory for numbers that share it."""

import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from neuro_cli.core.copies import copied, own_memory, state_of
from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout


def weight_norm() -> nn.Module:
    with warnings.catch_warnings(action="ignore"):
        return nn.utils.weight_norm(nn.Linear(3, 2))


@pytest.mark.parametrize("make", [weight_norm, lambda: prune.l1_unstructured(nn.Linear(3, 2), "weight", 0.5)])
def test_a_computed_weight_is_copied(make):
    module, x = make(), torch.ones(1, 3)
    made = copied(module)
    assert torch.equal(made(x), module(x))
    with torch.no_grad():
        next(made.parameters()).add_(1.0)
        first = next(module.parameters())
    assert not torch.equal(next(made.parameters()), first)


def test_what_cannot_be_copied_is_one_line():
    module = nn.Linear(3, 2)
    module.lock = threading.Lock()
    with pytest.raises(UserError, match=r"^model: Linear cannot be copied, as every member needs a copy: .*lock") as found:
        copied(module)
    assert "\n" not in str(found.value)


def test_expanded_tensors_get_memory_of_their_own():
    module = nn.Linear(3, 2)
    module.bias = nn.Parameter(torch.ones(1).expand(2))
    module.register_buffer("scale", torch.ones(1, 1).expand(2, 3))
    layout = ParameterLayout(module)
    layout.load(module, torch.arange(8.0))
    assert module.bias.tolist() == [6.0, 7.0]
    own_memory(state_of(module))
    module.scale[0, 0] = 2.0
    assert module.scale.sum() == 7.0
