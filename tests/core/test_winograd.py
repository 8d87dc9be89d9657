"""The compiled 5x5 convolutions with pooling and ReLU: torch's outputs, whatever the shapes."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from neuro_cli.core.kernels import winograd
from neuro_cli.scoring.pooled import PooledConvolution

pytestmark = pytest.mark.skipif(not winograd.AVAILABLE, reason="neither AVX2 nor AVX-512 here")


def layer(channels: int, outputs: int, bias: bool = True) -> PooledConvolution:
    torch.manual_seed(0)
    made = PooledConvolution.of(torch.nn.Conv2d(channels, outputs, 5, padding=2, bias=bias))
    made.compiled = True
    return made


def exact(layer: PooledConvolution, images: torch.Tensor) -> torch.Tensor:
    bias = None if layer.bias is None else layer.bias.double()
    return F.relu(F.max_pool2d(F.conv2d(images.double(), layer.weight.double(), bias, padding=2), 2))


@pytest.mark.parametrize(
    ("count", "channels", "outputs", "height", "width"),
    [
        (3, 32, 64, 14, 14), (1, 16, 32, 2, 2), (2, 48, 96, 7, 9), (5, 16, 32, 3, 12), (40, 16, 32, 4, 6), (1, 16, 32, 33, 5),
        (3, 16, 32, 10, 15), (3, 1, 32, 28, 28), (2, 1, 64, 9, 7), (1, 1, 32, 2, 3), (1, 1, 32, 5, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [torch.channels_last, torch.contiguous_format])
def test_outputs_are_those_of_torch(count, channels, outputs, height, width, form):
    images = torch.randn(count, channels, height, width).contiguous(memory_format=form)
    with torch.no_grad():
        made, wanted = (function(images) for function in (layer(channels, outputs), lambda x: exact(layer(channels, outputs), x)))
    assert made.shape == wanted.shape
    assert float((made - wanted).abs().max()) < 2e-5


def test_without_bias_and_in_half_precision():
    images = torch.randn(2, 16, 6, 6)
    with torch.no_grad():
        plain = layer(16, 32, bias=False)
        assert torch.allclose(plain(images).double(), exact(plain, images), atol=2e-5)
        half = layer(16, 32).bfloat16()
        made = half(images.bfloat16())
    assert made.dtype == torch.bfloat16
    assert torch.allclose(made.double(), exact(half, images.bfloat16()), rtol=2**-8, atol=2e-5)


@pytest.mark.parametrize("channels", [1, 16])
def test_bits_of_an_image_depend_on_no_other(channels):
    part, images = layer(channels, 32), torch.randn(9, channels, 10, 6)
    with torch.no_grad():
        whole = part(images)
        assert all(torch.equal(part(images[i : j + 1]), whole[i : j + 1]) for i in range(9) for j in range(i, 9, 3))


@pytest.mark.parametrize("channels", [1, 16])
def test_a_number_that_is_none_stays_within_its_image_and_passes_on(channels):
    part, images = layer(channels, 32), torch.randn(3, channels, 8, 8)
    with torch.no_grad():
        clean = part(images)
        images[1, 0, 4, 4] = np.nan
        made = part(images)
    assert torch.isnan(made[1]).any()
    assert torch.equal(made[[0, 2]], clean[[0, 2]])


def test_with_a_gradient_torch_does_it():
    part, images = layer(1, 32), torch.randn(2, 1, 6, 6)
    assert torch.equal(part(images), F.relu(F.max_pool2d(F.conv2d(images, part.weight, part.bias, padding=2), 2)))
    part(images).sum().backward()
    assert part.weight.grad is not None
