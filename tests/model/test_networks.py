"""Every network of conf/model: its size, its output, and that no weight is used twice."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from torch import nn

from neuro_cli.cli.options.tree import BASE
from neuro_cli.model.mnist import MNIST_10K
from neuro_cli.model.wide_resnet import WideResNet

CONF = Path(__file__).parents[2] / "conf"
SIZED = {"mlp_policy", "small_policy", "gru_policy", "char_gpt", "huggingface"}  # by their task or their file, and tested with it
OPTIONS = sorted({path.stem for path in (CONF / "model").glob("*.yaml")} - SIZED)
PARAMETERS = {
    "MNIST_10K": 11_274,
    "MNIST_30K": 28_938,
    "MNIST_500K": 454_922,
    "MNIST_3M": 3_274_634,
    "CIF_300K": 360_421,
    "CIF_900K": 895_973,
    "CIF_8M": 7_790_794,
    "blog_cnn": 8_470,
    "WRN_28_12": 52_517_850,
}


def build(option: str, *overrides: str) -> nn.Module:
    with initialize_config_dir(str(CONF), **BASE):
        return instantiate(compose(f"model/{option}", list(overrides)).model)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_has_its_published_size_ten_logits_and_no_parameter_twice(option):
    module = build(option)
    if option in PARAMETERS:
        assert sum(parameter.numel() for parameter in module.parameters()) == PARAMETERS[option]
        assert f"{PARAMETERS[option]:,} parameters" in (CONF / "model" / f"{option}.yaml").read_text()
    assert module(torch.rand(2, *module.input_shape)).shape == (2, 10)
    every = [parameter for _, parameter in module.named_parameters(remove_duplicate=False)]
    assert len(every) == len({parameter.data_ptr() for parameter in every})


def test_every_published_size_is_one_of_an_option():
    assert set(OPTIONS) >= PARAMETERS.keys()


@pytest.mark.parametrize(("depth", "width", "millions"), [(28, 10, 36.5), (40, 4, 8.9), (16, 8, 11.0), (22, 8, 17.2)])
def test_wide_resnets_have_the_published_sizes(depth, width, millions):
    """Zagoruyko and Komodakis 2016, tables 4 and 5."""
    module = WideResNet(depth, width)
    assert round(sum(parameter.numel() for parameter in module.parameters()) / 1e6, 1) == millions
    with torch.device("meta"):
        halved = WideResNet(depth, width).features[:-3](torch.rand(2, 3, 32, 32))
    assert halved.shape == (2, 64 * width, 8, 8)


def test_pool_before_relu_gives_the_same_numbers_as_relu_before_pool():
    torch.manual_seed(0)
    module = MNIST_10K()
    convolution, pool, relu, again, *_ = module.features
    usual = nn.Sequential(convolution, relu, pool, again, relu, pool)
    images = torch.randn(3, 1, 28, 28)
    assert torch.equal(module.features(images), usual(images))


def test_another_class_replaces_a_network_without_leftovers():
    module = build("MNIST_30K", "model._target_=torch.nn.Identity")
    assert type(module) is nn.Identity
