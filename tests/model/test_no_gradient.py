"""Networks that have no gradient, each against a forward pass in NumPy by loops: integers, three levels, spikes."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from neuro_cli.core.machine.processor import supported
from neuro_cli.model import int8_mlp
from neuro_cli.model.int8_mlp import Int8MLP, integer_product
from neuro_cli.model.spiking import SpikingMLP, rate_coded
from neuro_cli.model.ternary_cnn import TernaryCNN


def spread(module: nn.Module, deviation: float) -> nn.Module:
    """The module with biases, and with weights of which some leave the range of int8."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=deviation if "bias" in name or "gain" in name else deviation / 8)
    return module


# --- integers


def int8(x: np.ndarray, bits: int) -> np.ndarray:
    return np.clip(np.rint(x.astype(np.float32) * np.float32(2**bits)), -127, 127).astype(np.int64)


def integer_logits(module: Int8MLP, image: np.ndarray) -> list[float]:
    """The logits of one image, in int64 alone until the last division."""
    numbers, side = int8(image, 5), module.pool
    x = np.array(
        [
            (2 * plane[row : row + side, column : column + side].sum() + side * side) // (2 * side * side)
            for plane in numbers
            for row in range(0, plane.shape[0], side)
            for column in range(0, plane.shape[1], side)
        ]
    )
    for number, layer in enumerate(module.layers):
        weight, bias = int8(layer.weight.detach().numpy(), layer.weight_bits), layer.bias.detach().numpy()
        sums = weight @ x + np.rint(bias * np.float32(2**layer.sum_bits)).astype(np.int64)
        if number == len(module.layers) - 1:
            return [int(total) / 2**layer.sum_bits for total in sums]
        half = 2**layer.weight_bits // 2
        x = np.clip((sums + half) // 2**layer.weight_bits, 0, 127)
    raise AssertionError


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize(("hidden", "pool"), [([12, 9], 2), ([], 1), ([900], 1)])
def test_integers_have_the_bits_of_a_reference_in_int64(hidden, pool, products, monkeypatch):
    if products and not int8_mlp.has_int8_products():
        pytest.skip("a processor without products of int8")
    monkeypatch.setattr(int8_mlp, "has_int8_products", lambda: products)
    torch.manual_seed(2)
    module = spread(Int8MLP([1, 8, 8], hidden, pool, outputs=4), 0.5)
    images = 3 * torch.randn(5, 1, 8, 8)
    expected = [integer_logits(module, image) for image in images.numpy()]
    assert module(images).tolist() == expected
    assert len({tuple(row) for row in expected}) == 5


def test_products_are_exact_up_to_the_most_inputs():
    x = torch.randint(1, 128, (3, int8_mlp.MOST_INPUTS)).float()
    weight = torch.randint(1, 128, (2, int8_mlp.MOST_INPUTS)).float()
    weight[0], x[0] = 127, 127
    exact = (x.long() @ weight.long().t()).tolist()
    assert exact[0][0] == 127**2 * 1024 < 2**24
    assert exact == integer_product(x, weight).tolist() == integer_product(x, weight.requires_grad_()).tolist()
    assert exact == torch.func.vmap(integer_product)(x[:, None], weight[None].expand(3, -1, -1))[:, 0].tolist()


EXACT = """
import torch
from neuro_cli.model.int8_mlp import integer_product
x, weight = torch.full((64, 512), 127.0), torch.full((32, 512), -127.0)
assert (integer_product(x, weight) == -512 * 127**2).all()
"""


@pytest.mark.skipif(not supported("vnni"), reason="a processor without products of int8")
@pytest.mark.parametrize("limit", ["AVX2", "AVX512_CORE"])
def test_products_are_exact_where_a_limit_takes_them_from_onednn(limit):
    """It then adds two products in 16 bits, which 127 * 127 + 127 * 127 does not fit."""
    limited = os.environ | {"ONEDNN_MAX_CPU_ISA": limit}
    subprocess.run([sys.executable, "-c", EXACT], env=limited, check=True, timeout=120)


def test_integers_are_the_same_whatever_the_batch_is():
    torch.manual_seed(0)
    module, images = Int8MLP([1, 28, 28], [64], 2), torch.randn(33, 1, 28, 28)
    whole = module(images)
    assert all(torch.equal(module(images[place : place + 1])[0], whole[place]) for place in range(33))


# --- three levels


def levels(x: np.ndarray, threshold: float) -> np.ndarray:
    return np.where(np.abs(x) > threshold, np.sign(x), 0)


def ternary_logits(module: TernaryCNN, image: np.ndarray) -> np.ndarray:
    x = np.rint(image.astype(np.float64) * 32) / 32
    for layer in module.convolutions:
        weight = levels(layer.weight.detach().numpy(), np.float32(0.5 / math.sqrt(layer.fan_in)))
        assert set(np.unique(weight)) == {-1, 0, 1}
        side = (x.shape[-1] - 5) // 2 + 1
        made = np.zeros((len(weight), side, side))
        for channel, row, column in np.ndindex(made.shape):
            made[channel, row, column] = (weight[channel] * x[:, 2 * row : 2 * row + 5, 2 * column : 2 * column + 5]).sum()
        shift = layer.bias.detach().numpy()[:, None, None]
        x = levels(made.astype(np.float32) * np.float32(layer.factor) + shift, 0.5)
        assert set(np.unique(x)) == {-1, 0, 1}
    last = module.classifier
    weight = levels(last.weight.detach().numpy(), np.float32(0.5 / math.sqrt(last.in_features)))
    sums = (weight @ x.reshape(-1)).astype(np.float32)
    return sums * np.float32(last.factor) * last.gain.detach().numpy() + last.bias.detach().numpy()


@pytest.mark.parametrize(("shape", "channels"), [([1, 20, 20], [4, 6]), ([3, 9, 9], [5])])
def test_three_levels_give_what_a_loop_gives(shape, channels):
    torch.manual_seed(3)
    module = spread(TernaryCNN(shape, channels, outputs=4), 0.3)
    images = torch.randn(6, *shape)
    expected = np.stack([ternary_logits(module, image) for image in images.numpy()])
    np.testing.assert_allclose(module(images).detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    assert len({tuple(row) for row in expected.tolist()}) == 6


# --- spikes


def spiking_logits(module: SpikingMLP, image: np.ndarray) -> np.ndarray:
    """One image, neuron by neuron and step by step."""
    side = module.pool
    pixels = np.array(
        [
            plane[row : row + side, column : column + side].mean()
            for plane in image
            for row in range(0, plane.shape[0], side)
            for column in range(0, plane.shape[1], side)
        ]
    )
    rates = (pixels - pixels.min()) / (pixels.max() - pixels.min())
    golden = (math.sqrt(5) - 1) / 2
    spikes = np.array(
        [
            [
                math.floor(rate * (step + 1) + place * golden % 1) - math.floor(rate * step + place * golden % 1)
                for place, rate in enumerate(rates)
            ]
            for step in range(module.steps)
        ]
    )
    for layer in module.layers:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        fired = np.zeros((module.steps, len(weight)))
        for neuron in range(len(weight)):
            potential = 0.0
            for step in range(module.steps):
                potential = module.decay * potential + weight[neuron] @ spikes[step] + bias[neuron]
                if potential >= module.threshold:
                    fired[step, neuron] = 1
                    potential -= module.threshold
        spikes = fired
    return module.readout.weight.detach().numpy() @ spikes.mean(0) + module.readout.bias.detach().numpy()


@pytest.mark.parametrize(("hidden", "pool"), [([7], 2), ([9, 6], 1)])
def test_spikes_are_those_of_a_loop_over_neurons(hidden, pool):
    torch.manual_seed(4)
    module = spread(SpikingMLP([1, 6, 6], hidden, 9, 0.8, 0.7, pool, outputs=4), 0.3).double()
    images = torch.randn(5, 1, 6, 6, dtype=torch.float64)
    expected = np.stack([spiking_logits(module, image) for image in images.numpy()])
    np.testing.assert_allclose(module(images).detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    assert np.unique(expected.round(9)).size == expected.size


def test_a_rate_is_a_number_of_spikes():
    rates = torch.tensor([[0.0, 0.125, 0.5, 0.99, 1.0]]).repeat(1, 3)
    spikes = rate_coded(rates, 16)
    assert set(spikes.unique().tolist()) == {0.0, 1.0}
    assert ((spikes.sum(1) - 16 * rates).abs() < 1).all()
    assert (spikes[:, :, rates[0] == 0] == 0).all()
    assert (spikes[:, :, rates[0] == 1] == 1).all()
    assert not torch.equal(spikes[0, :, 1], spikes[0, :, 6])  # equal pixels, not together


# --- all of them


@pytest.mark.parametrize(
    ("module", "with_gradient"),
    [
        (Int8MLP([1, 8, 8], [5]), set()),
        (TernaryCNN([1, 16, 16], [2, 3]), {"classifier.bias", "classifier.gain"}),
        (SpikingMLP([1, 8, 8], [5], 4, 0.9, 1.0), {"readout.weight", "readout.bias"}),
    ],
    ids=["int8_mlp", "ternary_cnn", "spiking"],
)
def test_nothing_before_the_last_layer_has_a_gradient(module, with_gradient):
    made = module(torch.randn(16, *module.input_shape))
    made.square().sum().backward()
    moved = {name for name, parameter in module.named_parameters() if parameter.grad is not None and parameter.grad.any()}
    assert moved == with_gradient


MAKERS = [
    lambda: Int8MLP([1, 8, 8], [12, 9], 1, outputs=4),
    lambda: TernaryCNN([1, 16, 16], [3, 4], outputs=4),
    lambda: SpikingMLP([1, 8, 8], [12, 9], 8, 0.5, 1.0, outputs=4),
]


@pytest.mark.parametrize("make", MAKERS, ids=["int8", "ternary", "spiking"])
def test_a_number_that_is_not_finite_is_seen_in_the_logits(make):
    """Signs, int8 and thresholds make ordinary numbers of NaN: the first two are 0, and a comparison with it is false."""
    torch.manual_seed(3)
    images, names = torch.rand(3, *make().input_shape), [name for name, _ in make().named_parameters()]
    for name in names:
        module = make()
        module.get_parameter(name).data.view(-1)[0] = math.nan
        with torch.no_grad():
            assert not module(images).isfinite().all(), name
    bad = images.clone()
    bad[1, 0, 3, 3] = math.nan
    with torch.no_grad():
        assert make()(bad).isfinite().all(1).tolist() == [True, False, True]
