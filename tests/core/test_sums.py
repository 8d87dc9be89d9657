"""Weighted sums over directions by compiled loops: the bits of their definition, each product and each sum rounded by itself."""

import numpy as np
import torch
from draws import normal, words
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from neuro_cli.core.kernels.compiled import product_kernels, sum_kernels
from neuro_cli.core.kernels.numba_products import GROUP
from neuro_cli.core.rows import random_signs


def summed(begun: Tensor, a: Tensor, b: Tensor) -> np.ndarray:
    """Return ``begun`` plus the outer products of rows of a (K, O) and b (K, I): GROUP after each other, then their total.

    numpy rounds every operation by itself.
    """
    total, terms = begun.numpy().copy(), a.numpy()[:, :, None] * b.numpy()[:, None]
    for first in range(0, len(terms), GROUP):
        group = terms[first].copy()
        for term in terms[first + 1 : first + GROUP]:
            group += term
        total += group
    return total


SIZES = st.integers(1, 40)


@given(directions=st.integers(1, 700), inputs=SIZES, outputs=SIZES, rank=st.integers(1, 2), low=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_sums_of_outer_products_and_vectors(directions, inputs, outputs, rank, low):
    low = min(low, outputs - 1)
    factors, weights = normal(directions, 1 + rank * (inputs + outputs), seed=1), normal(directions, seed=2)
    made = normal(outputs - low, inputs, seed=3)
    begun, read = made.clone(), 1 + rank * outputs
    numbers, shares = factors.numpy(), weights.numpy()
    product_kernels.add_products(numbers, 1 + low, outputs, numbers, read, inputs, rank, shares, made.numpy())
    a = (weights[:, None] * factors[:, 1:read]).view(directions * rank, outputs)[:, low:]
    np.testing.assert_array_equal(made, summed(begun, a, factors[:, read:].reshape(-1, inputs)))
    vector, values = begun[0].clone(), factors[:, -inputs:]
    sum_kernels.add_weighted(values.numpy(), shares, vector.numpy())
    expected = begun[0].double() + weights.double() @ values.double()
    torch.testing.assert_close(vector.double(), expected, rtol=1e-4, atol=1e-3)
    drawn, signs = words(directions, -(-inputs // 32)), begun[0].clone()
    sum_kernels.add_weighted_signs(drawn.numpy(), shares, signs.numpy())
    by_column = random_signs(drawn, inputs, torch.float32)
    expected = begun[0].double() + weights.double() @ by_column.double()
    torch.testing.assert_close(signs.double(), expected, rtol=1e-4, atol=1e-3)
    lines, begun = words(directions, -(-outputs // 32), 2), normal(outputs, inputs, seed=3)
    expected = summed(begun, random_signs(lines, outputs, torch.float32) * weights[:, None], by_column)
    made = begun.clone()
    sum_kernels.add_sign_sum(lines.numpy(), drawn.numpy(), shares, made.numpy())
    np.testing.assert_array_equal(made, expected)
