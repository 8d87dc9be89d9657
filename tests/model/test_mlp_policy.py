"""The policy network: its layers, and what it says of bad sizes."""

import pytest
import torch
from torch import nn

from neuro_cli.core.errors import ConfigError
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


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"inputs": None}, r"^model\.inputs=None: the task does not set it"),
        ({"outputs": 0}, r"^model\.outputs=0: must be an integer >= 1$"),
        ({"hidden": 64}, r"^model\.hidden=64: must be a list of widths"),
        ({"hidden": [0]}, r"^model\.hidden=0: must be an integer >= 1$"),
        ({"activation": "gelu"}, r"^model\.activation=gelu: must be one of tanh, relu, sigmoid$"),
        ({"last_scale": -1.0}, r"^model\.last_scale=-1\.0: must be a number >= 0$"),
    ],
)
def test_bad_sizes_end_with_one_line(arguments, line):
    with pytest.raises(ConfigError, match=line):
        MLPPolicy(**({"inputs": 3, "outputs": 2} | arguments))
