"""Weighted sums over directions by compiled loops against their definitions in float64."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core.rows import random_signs
from neuro_cli.core.sums import add_outer_sum, add_sign_sum, add_weighted, add_weighted_signs


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def words(directions: int, count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2**32, (directions, count), generator=generator).to(torch.uint32)


SIZES = st.integers(1, 40)


@given(directions=st.integers(1, 700), inputs=SIZES, outputs=SIZES, rank=st.integers(1, 2), low=st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_sums_of_outer_products_and_vectors(directions, inputs, outputs, rank, low):
    low = min(low, outputs - 1)
    factors, weights = normal(directions, 1 + rank * (inputs + outputs), seed=1), normal(directions, seed=2)
    begun = normal(outputs - low, inputs, seed=3)
    made = begun.clone()
    add_outer_sum(factors, 1 + rank * outputs, (1 + low, outputs, rank), weights, made)
    a = factors[:, 1 : 1 + rank * outputs].double().view(directions, rank, outputs)[:, :, low:]
    b = factors[:, 1 + rank * outputs :].double().view(directions, rank, inputs)
    expected = begun.double() + torch.einsum("d,dro,dri->oi", weights.double(), a, b)
    torch.testing.assert_close(made.double(), expected, rtol=1e-4, atol=1e-3)
    vector, values = begun[0].clone(), factors[:, -inputs:]
    add_weighted(values, weights, vector)
    expected = begun[0].double() + weights.double() @ values.double()
    torch.testing.assert_close(vector.double(), expected, rtol=1e-4, atol=1e-3)
    drawn, signs = words(directions, -(-inputs // 32)), begun[0].clone()
    add_weighted_signs(drawn, weights, signs)
    by_column = random_signs(drawn, inputs, torch.float64)
    expected = begun[0].double() + weights.double() @ by_column
    torch.testing.assert_close(signs.double(), expected, rtol=1e-4, atol=1e-3)
    lines, made = words(directions, -(-outputs // 32), 2), normal(outputs, inputs, seed=3)
    by_line = random_signs(lines, outputs, torch.float64)
    expected = made.double() + (by_line * weights.double()[:, None]).T @ by_column
    add_sign_sum(lines, drawn, weights, made)
    torch.testing.assert_close(made.double(), expected, rtol=1e-4, atol=1e-3)
