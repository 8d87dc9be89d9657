"""What the codecs put on the wire, against their definitions written as plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro_cli.distribution import codec as codecs
from neuro_cli.distribution.codec import WIRES, codec_of, slices, unpack

CODECS = {wire: codec_of(wire) for wire in WIRES}
BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1 + 4 / 256}


def made(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Values of very different sizes from column to column."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.exp(6 * torch.randn(columns, generator=generator))
    return torch.randn(rows, columns, generator=generator) * sizes


def there_and_back(wire: str, values: torch.Tensor) -> torch.Tensor:
    message = CODECS[wire].encode(values)
    assert message.dtype == torch.uint8
    assert len(message) == CODECS[wire].size(*values.shape)
    return CODECS[wire].decode(message, *values.shape)


@pytest.mark.parametrize("wire", WIRES)
def test_bytes_a_column(wire):
    assert CODECS[wire].size(3, 256 * 40) == 3 * 256 * 40 * BYTES[wire]


def test_float32_comes_back_to_the_bit():
    values = made(2, 1001)
    assert torch.equal(there_and_back("float32", values), values)


def test_bfloat16_rounds_to_nearest_and_ties_to_even():
    """On the bits: the lower half is dropped, up when it is above one half, or one half and the upper half is odd."""
    values = made(2, 5000)
    ties = torch.tensor([[0x3F808000, 0x3F818000]], dtype=torch.int32).view(torch.float32).repeat(2, 1)
    values = torch.cat([values, ties], dim=1)
    bits = values.numpy().view(np.uint32).astype(np.uint64)
    low, high = bits & 0xFFFF, bits >> 16
    up = (low > 0x8000) | ((low == 0x8000) & (high % 2 == 1))
    expected = ((high + up) << 16).astype(np.uint32).view(np.float32)
    assert np.array_equal(there_and_back("bfloat16", values).numpy(), expected)


@pytest.mark.parametrize("columns", [1, 255, 256, 257, 5000])
def test_int8_is_a_scale_and_a_level_for_every_column(columns, monkeypatch):
    monkeypatch.setattr(codecs, "CHUNK", 1024)  # several, so that their borders are seen
    values = made(2, columns)
    expected = np.empty_like(values.numpy())
    for row in range(2):
        for low in range(0, columns, 256):
            block = values[row, low : low + 256].numpy()
            scale = np.abs(block).max() / np.float32(127)
            for column, value in enumerate(block):
                level = np.clip(np.rint(value / scale), -127, 127)
                expected[row, low + column] = np.float32(level) * scale
    assert np.array_equal(there_and_back("int8", values).numpy(), expected)


@given(cuts=st.lists(st.integers(1, 20), max_size=3), columns=st.integers(1, 6000), seed=st.integers(0, 100))
@pytest.mark.parametrize("wire", WIRES)
def test_bits_do_not_depend_on_where_the_columns_are_cut(wire, cuts, columns, seed):
    values = made(2, columns, seed)
    borders = sorted({0, columns, *(min(cut * CODECS[wire].block, columns) for cut in cuts)})
    pieces = [there_and_back(wire, values[:, a:b]) for a, b in pairwise(borders)]
    assert torch.equal(torch.cat(pieces, dim=1), there_and_back(wire, values))


@pytest.mark.parametrize("wire", WIRES)
def test_zeros_and_the_smallest_numbers_do_no_harm(wire):
    assert torch.equal(there_and_back(wire, torch.zeros(2, 300)), torch.zeros(2, 300))
    smallest = torch.full((1, 300), 1e-45)
    assert (there_and_back(wire, smallest).abs() <= 2e-45).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("wire", WIRES)
def test_a_number_that_is_not_finite_is_not_hidden(wire, bad):
    values = made(2, 1000)
    values[1, 700] = bad
    back = there_and_back(wire, values)
    assert not back[1, 700].isfinite()
    assert back[:, :500].isfinite().all()
    assert back[0].isfinite().all()


@given(columns=st.integers(1, 30_000), parts=st.integers(1, 100))
@pytest.mark.parametrize("wire", WIRES)
def test_slices_cover_all_columns_and_begin_at_blocks(wire, columns, parts):
    block = CODECS[wire].block
    found = slices(columns, parts, block)
    assert (found[0][0], found[-1][1], len(found)) == (0, columns, parts)
    assert all(a[1] == b[0] and a[0] <= a[1] for a, b in pairwise(found))
    assert all(low % block == 0 for low, high in found if low < high)
    blocks = math.ceil(columns / block)
    assert max(high - low for low, high in found) <= math.ceil(blocks / parts) * block


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("columns", [5, 700, 3001])
def test_messages_of_many_ranks_are_put_together(wire, columns):
    """Also of ranks that have no column, and at addresses where no float begins."""
    values, places = made(2, columns), slices(columns, 5, CODECS[wire].block)
    messages = [CODECS[wire].encode(values[:, a:b]) for a, b in places]
    odd = torch.cat([torch.zeros(1, dtype=torch.uint8), *messages])[1:].split([len(message) for message in messages])
    into = torch.empty(2, columns)
    unpack(CODECS[wire], odd, places, into)
    assert torch.equal(into, there_and_back(wire, values))
