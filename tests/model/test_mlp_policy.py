"""The policy network: its layers, and what it says of bad sizes."""

import torch
from torch import nn

from neuro_cli.model.mlp_policy import MLPPolicy


def test_layers_are_as_wide_as_asked():
    policy = MLPPolicy(3, 2, [5, 7], "relu")
    shapes = [tuple(part.weight.shape) for part in policy if isinstance(part, nn.Linear)]
    assert shapes == [(5, 3), (7, 5), (2, 7)]
    assert sum(isinstance(part, nn.ReLU) for part in policy) == 2
    assert policy(torch.rand(4, 3)).shape == (4, 2)
    assert policy(torch.rand(4, 1, 3)).shape == (4, 2)


def test_without_hidden_layers_it_is_linear_and_may_begin_at_zero():
    policy = MLPPolicy(3, 2, [], last_scale=0.0)
    assert [type(part) for part in policy] == [nn.Flatten, nn.Linear]
    assert not policy(torch.rand(4, 3)).any()
