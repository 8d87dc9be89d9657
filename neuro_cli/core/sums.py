"""Weighted sums over directions on a CPU, by compiled loops (:mod:`neuro_cli.core.kernels.sums`).

Legend: D directions; weights (D,) float32.
"""

from torch import Tensor

from neuro_cli.core.kernels.compiled import sum_kernels

BLOCK = 256  # directions whose factors a core's caches hold


def add_outer_sum(factors: Tensor, read: int, written: tuple[int, int, int], weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] times that over ranks of a b^T to ``out`` (O, I), where a BLAS can be called.

    ``factors`` (D, W): b of all ranks from column ``read`` on; ``written``: column where a begins, numbers to the next a, ranks.
    """
    sum_kernels.add_outer_sum(factors.numpy(), read, *written, weights.numpy(), BLOCK, out.numpy())


def add_sign_sum(rows: Tensor, columns: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] times the outer product of its signs to ``out`` (O, I), by a BLAS to call.

    Signs of lines and of columns: bits of words (D, W).
    """
    sum_kernels.add_sign_sum(rows.numpy(), columns.numpy(), weights.numpy(), BLOCK, out.numpy())


def add_weighted(vectors: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] * vectors[d] to ``out`` (O,) on a CPU; vectors (D, O) float32."""
    sum_kernels.add_weighted(vectors.numpy(), weights.numpy(), out.numpy())


def add_weighted_signs(words: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] * the signs of the bits of words[d] to ``out`` (O,) on a CPU; words (D, W)."""
    sum_kernels.add_weighted_signs(words.numpy(), weights.numpy(), out.numpy())
