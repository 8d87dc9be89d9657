"""Networks that come with neuro in the pass that is mapped over members, against a loop of torch's functional calls."""

import pytest
import torch
from configs import composed
from test_mapped import DIRECTIONS, EXAMPLES, SAMPLERS, check

from neuro_cli.factory.instantiate import make
from neuro_cli.model.char_gpt import CharGPT
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
