"""The policy network: its layers, and what it says of bad sizes."""

import pytest
import torch
from torch import nn

from neuro_cli.core.module.gain import Gain
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


def test_a_gain_depends_on_the_observation():
    policy = MLPPolicy(3, 2, [], gain=True)
    x = torch.rand(4, 3)
    signal, gain = policy.layer_0(x).split(2, dim=1)
    torch.testing.assert_close(policy(x), signal * (1 + gain / 2))
    assert not MLPPolicy(3, 2, [5], last_scale=0.0, gain=True)(x).any()


def test_a_gain_turns_a_controller_around_where_no_linear_policy_could():
    """Pumps a pendulum that hangs and brakes one that stands: the sign of its answer to a speed changes with the cosine."""
    policy = MLPPolicy(2, 1, [], gain=True)
    with torch.no_grad():
        policy.layer_0.weight.copy_(torch.tensor([[0.0, -1.0], [4.0, 0.0]]))
        policy.layer_0.bias.zero_()
        hanging, standing = policy(torch.tensor([[-1.0, 0.5], [1.0, 0.5]]))
    assert hanging > 0 > standing


def test_signals_without_a_gain_each_are_an_error():
    with pytest.raises(RuntimeError):
        Gain()(torch.rand(4, 3))
