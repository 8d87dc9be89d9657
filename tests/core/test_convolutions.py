"""Convolutions with weights of their own by compiled loops, against torch's."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.core.rows import Geometry, out_sizes
from neuro_cli.sampler import structured

PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    channels=st.integers(1, 4), outputs=st.integers(1, 20), image=st.tuples(st.integers(5, 12), st.integers(5, 12)), kernel=PAIRS,
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)), padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)), examples=st.integers(1, 2), bias=st.sampled_from([None, 1, 2]),
    last=st.booleans(), lines=st.sampled_from([1, 400, 2**15]),
)  # fmt: skip
@settings(max_examples=15, deadline=None)
def test_they_are_those_of_torch(channels, outputs, image, kernel, stride, padding, dilation, examples, bias, last, lines):
    generator, directions = torch.Generator().manual_seed(1), 3
    geometry = Geometry(stride, padding, dilation)
    x = torch.randn(directions * examples, channels, *image, generator=generator)
    x = x.contiguous(memory_format=torch.channels_last) if last else x
    weights = torch.randn(directions, outputs, channels * kernel[0] * kernel[1], generator=generator)
    shifts = None if bias is None else torch.randn(*([directions] * (bias - 1)), outputs, generator=generator)
    out = torch.full((len(x), *out_sizes(image, kernel, geometry), outputs), torch.nan)
    before, structured.LINES = structured.LINES, lines
    try:
        structured.own_convolutions(x, weights, shifts, examples, kernel, geometry, out)
    finally:
        structured.LINES = before
    for row in range(len(x)):
        direction = row // examples
        own = weights[direction].view(outputs, channels, *kernel)
        shift = shifts if bias != 2 else shifts[direction]
        expected = F.conv2d(x[row : row + 1], own, shift, stride, padding, dilation)[0].permute(1, 2, 0)
        torch.testing.assert_close(out[row], expected, rtol=1e-4, atol=1e-4)
