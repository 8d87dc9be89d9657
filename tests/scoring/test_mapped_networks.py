"""Networks that come with neuro in the pass that is mapped over members, against a loop of torch's functional calls."""

import pytest
import torch
from support.configs import composed
from test_mapped import DIRECTIONS, EXAMPLES, SAMPLERS, check

from neuro_cli.factory.instantiate import make
from neuro_cli.model.char_gpt import CharGPT
from neuro_cli.model.int8_mlp import Int8MLP
from neuro_cli.model.spiking import SpikingMLP
from neuro_cli.model.ternary_cnn import TernaryCNN
from neuro_cli.sampler.base import Sampler


@pytest.mark.parametrize("name", ["iid", "low_rank", "sign_flip"])
@pytest.mark.parametrize("pairs", [True, False])
def test_the_transformer_for_text(name, pairs):
    torch.manual_seed(1)
    module = CharGPT(outputs=11, context=6, width=8, depth=2, heads=2)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    sampler = make(composed(*SAMPLERS[name]), "sampler", Sampler)
    check(sampler, module, torch.randint(11, (DIRECTIONS * EXAMPLES, 5)), pairs)


NO_GRADIENT = {
    "int8_mlp": Int8MLP([1, 8, 8], [6], 2, outputs=3),
    "ternary_cnn": TernaryCNN([1, 13, 13], [3, 4], outputs=3),
    "spiking": SpikingMLP([1, 8, 8], [6, 5], 5, 0.9, 1.0, 2, outputs=3),
}


@pytest.mark.parametrize("name", ["iid", "low_rank", "sign_flip"])
@pytest.mark.parametrize("network", NO_GRADIENT)
def test_networks_without_a_gradient(name, network):
    module = NO_GRADIENT[network]
    sampler = make(composed(*SAMPLERS[name]), "sampler", Sampler)
    torch.manual_seed(2)
    check(sampler, module, torch.randn(DIRECTIONS * EXAMPLES, *module.input_shape, dtype=torch.float64))
