"""Sums of weighted sign matrices by tables against a product of the matrices themselves, in whole numbers."""

import numpy as np
import pytest

from neuro_cli.core.kernels.compiled import sign_kernels


@pytest.mark.skipif(not sign_kernels.SERVES, reason="tables are in the registers of AVX-512")
@pytest.mark.parametrize("directions", [1, 4, 5, 23, 1024])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 64), (5, 70), (10, 512), (130, 33)])
def test_a_sum_by_tables_is_the_product_of_the_signs(directions, rows, columns):
    random = np.random.default_rng(directions)
    words = [random.integers(2**32, size=(directions, -(-size // 32)), dtype=np.uint32) for size in (rows, columns)]
    weights, out = random.integers(-9, 10, directions), random.integers(-9, 10, (rows, columns))
    signs = [
        1 - 2 * np.unpackbits(word.view(np.uint8), axis=1, bitorder="little")[:, :size].astype(np.int64)
        for word, size in zip(words, (rows, columns), strict=True)
    ]
    wanted = out + (signs[0] * weights[:, None]).T @ signs[1]
    made = out.astype(np.float32)
    sign_kernels.add_sign_product(*words, weights.astype(np.float32), made)
    np.testing.assert_array_equal(made, wanted)
