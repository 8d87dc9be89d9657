"""Noise on activations with a step size for each layer."""

import pytest
import torch
from activation_lab import SIGMA, Made, bound, estimate
from torch import nn

from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.errors import ConfigError


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def estimates(layers: dict | None) -> torch.Tensor:
    """Return the estimated derivative by the parameters, from the same noise."""
    algo = OpenAIES(SIGMA, shaping="raw", layers=layers)
    parts = bound(network, Made((3,), 2, 6), algo=algo)
    return algo._layers.derivative(estimate(parts))


def test_a_layers_sigma_changes_its_noise_and_not_what_is_estimated():
    plain, other = estimates(None), estimates({"0.*": {"sigma": 3.0}})
    assert torch.equal(other[16:], plain[16:])
    assert not torch.equal(other[:16], plain[:16])
    torch.testing.assert_close(other[:16], plain[:16], rtol=1e-2, atol=1e-2 * float(plain[:16].abs().max()))


def test_two_sigmas_in_a_layer_are_refused():
    with pytest.raises(ConfigError, match=r"algo\.layers=.*one noise for 0\.weight and 0\.bias: give them one sigma"):
        estimates({"*.bias": {"sigma": 5.0}})
