"""Weighted sums over directions on a CPU, by compiled loops whose order, and so whose bits, no processor changes.

Legend: D directions; weights (D,) float32.
"""

from typing import NamedTuple

from torch import Tensor

from neuro_cli.core.kernels.compiled import product_kernels, sum_kernels


class Vectors(NamedTuple):
    """Vectors of directions. Rank q begins at column ``first + q * step`` of ``numbers`` (D, W) float32."""

    numbers: Tensor
    first: int = 0
    step: int = 0


def add_outer_sum(rows: Vectors, columns: Vectors, rank: int, weights: Tensor, out: Tensor) -> None:
    """Add weights[d] a_dq b_dq^T, summed over directions and ranks, to ``out`` (O, I); ``rows``: a, ``columns``: b."""
    a, b = ((part.numbers.numpy(), part.first, part.step) for part in (rows, columns))
    product_kernels.add_products(*a, *b, rank, weights.numpy(), out.numpy())


def add_sign_sum(rows: Tensor, columns: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add weights[d] times the outer product of the signs of direction d, summed over directions, to ``out`` (O, I).

    ``rows``, ``columns``: signs as bits of words (D, W).
    """
    sum_kernels.add_sign_sum(rows.numpy(), columns.numpy(), weights.numpy(), out.numpy())


def add_weighted(vectors: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] * vectors[d] to ``out`` (O,) on a CPU; vectors (D, O) float32."""
    sum_kernels.add_weighted(vectors.numpy(), weights.numpy(), out.numpy())


def add_weighted_signs(words: Tensor, weights: Tensor, out: Tensor) -> None:
    """Add the sum over directions of weights[d] * the signs of the bits of words[d] to ``out`` (O,) on a CPU; words (D, W)."""
    sum_kernels.add_weighted_signs(words.numpy(), weights.numpy(), out.numpy())
