"""Addresses and options of sampler=activation."""

import pytest
import torch
from support.configs import composed

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.activation_noise.noise.addresses import Addresses
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.factory.instantiate import make


def addresses(*overrides: str, seed: int = 5) -> Addresses:
    made: Activation = make(composed("sampler=activation", *overrides), "sampler", Activation)
    module = torch.nn.Linear(3, 2)
    made.bind(Noise(seed, 8, torch.device("cpu"), Threads(1)), 128, ParameterLayout(module))
    return made.addresses(6, 2, (700, 11))


def test_a_generation_has_a_member_for_each_side_draw_layer_and_reward():
    assert addresses("sampler.draws=3").members == 2 * 3 * 2 * 6 * 2
    assert addresses("sampler.draws=3", "sampler.schedule=all").members == 2 * 3 * 6 * 2
    assert addresses("sampler.draws=3", "sampler.antithetic=false").members == 3 * 2 * 6 * 2


def test_every_number_is_a_function_of_its_address():
    drawn = addresses("sampler.draws=5")
    for layer in (0, 1):
        whole = drawn.numbers(4, layer, 0, 5)
        assert whole.shape == (5, 6, (700, 11)[layer])
        parts = torch.cat([drawn.numbers(4, layer, low, high) for low, high in ((0, 1), (1, 4), (4, 5))])
        assert torch.equal(whole, parts)
        assert torch.equal(addresses("sampler.draws=9").numbers(4, layer, 0, 5), whole)  # more draws change no earlier one
        assert not torch.equal(drawn.numbers(5, layer, 0, 5), whole)
        assert not torch.equal(addresses("sampler.draws=5", seed=6).numbers(4, layer, 0, 5), whole)
    assert not torch.equal(drawn.numbers(4, 0, 0, 1).flatten()[:66], drawn.numbers(4, 1, 0, 1).flatten())


def test_numbers_are_standard_normal_and_not_correlated():
    drawn = addresses("sampler.draws=50").numbers(0, 0, 0, 50).double()
    assert abs(float(drawn.mean())) < 5 / drawn.numel() ** 0.5
    assert float(drawn.square().mean()) == pytest.approx(1, abs=5 * (2 / drawn.numel()) ** 0.5)
    rows = drawn.flatten(0, 1)
    products = (rows @ rows.T / rows.shape[1]).fill_diagonal_(0)
    assert float(products.abs().max()) < 6 / rows.shape[1] ** 0.5


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sampler.draws=100000000", "sampler.draws=100000000: 4800000000 forward passes of an example are too many"),
    ],
)
def test_bad_options_name_the_key(override, message):
    with pytest.raises(ConfigError, match=message):
        addresses(override)
