"""Convolutions by Winograd's products against torch's in float64, for any taps, channels, pixels, padding and groups."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core.kernels import winograd
from neuro_cli.core.rows import Geometry
from neuro_cli.scoring import convolutions

pytestmark = pytest.mark.skipif(not winograd.AVAILABLE, reason="neither AVX2 nor AVX-512 here")


def tensors(count, channels, outputs, image, groups, padding, bias, taps) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return images, a weight and a bias or None; images large enough for an outcome."""
    generator = torch.Generator().manual_seed(1)
    sides = [max(side, tap - 2 * zeros) for side, tap, zeros in zip(image, taps, padding, strict=True)]
    x = torch.randn(count, groups * channels, *sides, generator=generator)
    weight = torch.randn(groups * outputs, channels, *taps, generator=generator)
    return x, weight, torch.randn(groups * outputs, generator=generator) if bias else None


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], groups: int) -> Tensor:
    return convolutions.convolved(x, weight, bias, Geometry(padding=padding, groups=groups))


def exact(x: Tensor, weight: Tensor, bias: Tensor | None, padding: tuple[int, int], groups: int) -> Tensor:
    return F.conv2d(x.double(), weight.double(), None if bias is None else bias.double(), padding=padding, groups=groups)


def close(made: Tensor, wanted: Tensor) -> None:
    """Compare with the largest number, to which the products of points have their rounding."""
    assert float((made - wanted).abs().max()) <= 2e-5 * float(wanted.abs().max().clamp(min=1))


@given(
    count=st.integers(1, 3), channels=st.sampled_from([1, 3, 16, 21]), outputs=st.sampled_from([1, 15, 32, 50]),
    image=st.tuples(st.integers(1, 9), st.integers(1, 9)), groups=st.integers(1, 2), bias=st.booleans(), last=st.booleans(),
    padding=st.tuples(st.integers(0, 3), st.integers(0, 3)), taps=st.sampled_from([(3, 3), (5, 5), (1, 3), (4, 7), (2, 6)]),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_they_are_those_of_torch(last, padding, groups, **shape):
    x, weight, bias = tensors(groups=groups, padding=padding, **shape)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    made, wanted = convolved(x, weight, bias, padding, groups), exact(x, weight, bias, padding, groups)
    close(made, wanted)
    if not (last and x.is_contiguous()):  # images of one channel or pixel lie in both orders
        assert made.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def test_an_image_has_the_same_bits_in_any_batch():
    x, weight, bias = tensors(9, 17, 33, (11, 6), 1, (1, 1), True, (3, 3))
    every = convolved(x, weight, bias, (1, 1), 1)
    assert all(torch.equal(every[i : i + 1], convolved(x[i : i + 1], weight, bias, (1, 1), 1)) for i in range(len(x)))


@pytest.mark.parametrize("taps", range(2, 8))
def test_the_points_give_a_convolution_in_exact_arithmetic(taps):
    """The algebra of one line in float64: A^T [(G w) * (B^T x)], by the interpolation that the points stand for."""
    points, side = winograd.points(taps), winograd.SIDES[taps]
    random = np.random.default_rng(1)
    x, weight = random.standard_normal(points), random.standard_normal(taps)
    roots = [0.0, *(sign * root for root in winograd.ROOTS[: points // 2 - 1] for sign in (1, -1))]
    gather = np.array([[root**power for root in roots] + [float(power == side - 1)] for power in range(side)])
    # B is what makes the products a convolution for all weights and pixels: solved for, it has the spread's small integers
    spread = np.zeros((points, points))
    lines = winograd.filter_lines(taps).astype(np.float64)
    system = np.stack([gather[i] * lines[:, tap] for i in range(side) for tap in range(taps)])
    for pixel in range(points):
        wanted = [float(i + tap == pixel) for i in range(side) for tap in range(taps)]
        spread[:, pixel], *_ = np.linalg.lstsq(system, wanted, rcond=None)
    made = gather @ ((lines @ weight) * (spread @ x))
    np.testing.assert_allclose(made, np.correlate(x, weight, "valid"), atol=1e-6)
