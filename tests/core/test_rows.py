"""The compiled loops over rows against the torch operations that say the same."""

import pytest
import torch
from draws import words
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core.rows import SHORT_ORDER, MemberBatch, placed_values, random_orders, random_signs, weighted_signs


@given(size=st.integers(1, 3000), kept=st.integers(1, 3000), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_orders_are_a_sort_by_the_high_bits_of_the_words(size, kept, seed):
    kept = min(kept, size)
    drawn = words(3, size, seed)
    orders = random_orders(drawn, kept)
    bits = max(1, (size - 1).bit_length())
    keys = drawn.to(torch.int64) >> bits
    assert torch.equal(orders.long(), keys.argsort(dim=1, stable=True)[:, :kept])


def test_long_orders_are_permutations_by_all_bits():
    size = 2**SHORT_ORDER + 5
    drawn = words(2, size)
    assert torch.equal(random_orders(drawn, size).long(), drawn.to(torch.int64).argsort(dim=1, stable=True))


def test_every_place_of_an_order_is_uniform():
    drawn = words(20000, 6)
    counts = torch.stack([(random_orders(drawn, 6) == thing).sum(0) for thing in range(6)])
    assert (counts - 20000 / 6).abs().max() < 6 * (20000 / 6) ** 0.5


@given(count=st.integers(1, 200), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_weighted_signs_are_the_bits(count, seed):
    drawn, weights = words(4, -(-count // 32), seed), torch.tensor([1.0, -2.0, 0.5, 0.0])
    expected = random_signs(drawn, count, torch.float32) * weights[:, None]
    assert torch.equal(weighted_signs(drawn, count, weights), expected)
    assert (expected.abs() == weights.abs()[:, None]).all()


def image(*shape: int, dtype: torch.dtype, seed: int = 2) -> Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)
    return made.contiguous(memory_format=torch.channels_last)


@given(channels=st.integers(1, 140), examples=st.integers(1, 3), seed=st.integers(0, 100), single=st.booleans())
@settings(max_examples=15, deadline=None)
def test_signs_of_features_have_the_bits_of_products_with_signs(channels, examples, seed, single):
    dtype, rows = torch.float32 if single else torch.float64, MemberBatch([0.3, -0.7], 5, examples)
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(rows.count, channels, generator=generator, dtype=dtype) for _ in range(2))
    drawn = words(5, -(-channels // 32), seed)
    flipped = x * rows.repeated(random_signs(drawn, channels, dtype))
    assert torch.equal(rows.flip(x, drawn, -1), flipped)
    scales = torch.tensor(rows.scales, dtype=dtype).repeat_interleave(5 * examples)[:, None]
    assert torch.equal(rows.add_flipped(y.clone(), x, drawn, -1), y + scales * flipped)


@given(channels=st.integers(1, 140), kept=st.integers(1, 140), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_places_of_features_are_those_of_an_assignment(channels, kept, seed):
    rows, kept = MemberBatch([0.3, -0.7], 5, 2), min(kept, channels)
    generator = torch.Generator().manual_seed(seed)
    y, t = (torch.randn(rows.count, count, generator=generator) for count in (channels, kept))
    order = random_orders(words(5, channels, seed), kept)
    wanted = torch.zeros_like(y).scatter_(1, rows.repeated(order).long(), t)
    scales = torch.tensor(rows.scales).repeat_interleave(10)[:, None]
    assert torch.equal(rows.add_scattered(y.clone(), t, order, -1), y + scales * wanted)
    placed = torch.zeros(5, channels).scatter_(1, order.long(), t[:1].expand(5, -1))
    assert torch.equal(placed_values(t[0], order, channels), placed)


@pytest.mark.parametrize("shape", [(4, 6, 5), (4, 6, 2, 3), (4, 6, 2, 3, 2), (4, 6, 1, 1, 1)])
def test_channels_are_picked_whatever_the_dimensions(shape):
    rows, order = MemberBatch([1.0, -1.0], 2, 1), random_orders(words(2, 6), 4)
    x = torch.randn(shape).movedim(1, -1).contiguous().movedim(-1, 1)
    made = rows.gather(x, order, 1)
    assert torch.equal(made, torch.gather(x, 1, rows._spread(order, len(shape), 1).expand(made.shape)))
    assert made.movedim(1, -1).is_contiguous()
