"""Linear layers of many members on a CPU, by compiled loops (:mod:`neuro_cli.core.kernels.numba_linear`).

Legend: n rows of S sides, D directions; I inputs, O outputs of a layer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.kernels.compiled import blas_kernels, linear_kernels
from neuro_cli.core.rows import MemberBatch, by_rows, once

ROWS = 512  # rows of a block: with fewer, products are slower; more do not fit in the nearest caches
# a layer of few outputs takes as long as reading its inputs does: most values of inputs, their copy and outcomes, and least rows
NARROW, VALUES, LEAST = 64, 2**18, 256

_NONE = np.empty(0, np.float32)


@dataclass(frozen=True)
class LinearLayer:
    """Centre's linear layer on the rows of members: inputs x (n, .., I), ``weight`` (O, I), ``bias`` (O,).

    x has the rows of all sides, or those of one side for all of them; outcomes are of all sides.
    """

    rows: MemberBatch
    x: Tensor
    weight: Tensor
    bias: Tensor | None

    @property
    def served(self) -> bool:
        """Return whether loops serve the linear layer: float32 on a CPU without gaps in memory, and a BLAS for them to call."""
        return self.x.dtype == torch.float32 and self._plain and bool(blas_kernels.SERVES)

    @property
    def served_half(self) -> bool:
        """Return whether :meth:`low_rank` serves the linear layer in bfloat16."""
        return self.x.dtype == torch.bfloat16 and self._plain

    @property
    def _plain(self) -> bool:
        x, weight = self.x, self.weight
        same = x.dtype == weight.dtype and x.device.type == "cpu" and x.is_contiguous() and weight.is_contiguous()
        return same and x.numel() > 0 and weight.numel() > 0

    def flipped(self, noise: Tensor, shift: Tensor | None, words: Tensor, columns: tuple[int, int, int]) -> Tensor:
        """Return outcomes (n, .., O) with scale * ((x B) noise^T) A, and scale * C shift on the bias; ``shift`` (O,).

        ``columns`` of ``words`` (D, W) where the signs B, A and C of a direction begin, -1: there are none.
        """
        return self._made(linear_kernels.flipped_layer, noise, _array(shift), words.numpy(), columns)

    def low_rank(self, factors: Tensor, shifts: Tensor | None, columns: tuple[int, int], rank: int, share: float) -> Tensor:
        """Return outcomes with scale * share * sum of (x b^T) a, and scale * shifts (D, O) on the bias.

        ``columns`` of ``factors`` (D, W) where b and where a of all ranks begin.
        """
        if self.served_half:
            return self._low_rank_by_torch(factors, shifts, columns, rank, share)
        return self._made(linear_kernels.low_rank_layer, factors, self._vectors(shifts), *columns, rank, np.float32(share))

    def _low_rank_by_torch(
        self, factors: Tensor, shifts: Tensor | None, columns: tuple[int, int], rank: int, share: float
    ) -> Tensor:
        """Return :meth:`low_rank` in bfloat16 by torch's product, whose outcomes are rounded before the noise is added."""
        rows, (outputs, inputs) = self.rows, self.weight.shape
        out = self.x.new_empty(rows.count, *self.x.shape[1:-1], outputs)
        made = by_rows(lambda part: F.linear(part, self.weight, self.bias), self.x).view(-1, outputs)
        linear_kernels.add_low_rank_half(
            _words(made), _words(self.x).reshape(-1, inputs), factors.numpy(), self._vectors(shifts), *columns, rank,
            np.float32(share), np.array(rows.scales, np.float32), out.numel() // outputs // (len(rows.scales) * rows.directions),
            _words(out).reshape(-1, outputs),
        )  # fmt: skip
        return out

    def _vectors(self, shifts: Tensor | None) -> np.ndarray:
        return np.empty((self.rows.directions, 0), np.float32) if shifts is None else shifts.float().numpy()

    def _made(self, loops: Callable[..., None], noise: Tensor, *given: object) -> Tensor:
        rows, x, weight = self.rows, self.x, self.weight
        outputs, inputs = weight.shape
        out = x.new_empty(rows.count, *x.shape[1:-1], outputs)
        read, result = x.numel() // inputs, out.numel() // outputs
        first = once(x)  # the centre's product of rows that repeat is that of the first ones
        base = F.linear(first, weight).view(-1, outputs) if len(first) < len(x) else x.new_empty(0, outputs)
        loops(
            x.numpy().reshape(read, inputs), weight.numpy(), base.numpy(), noise.numpy(), _array(self.bias), *given,
            np.array(rows.scales, np.float32), result // (len(rows.scales) * rows.directions),
            _block(inputs, outputs), out.numpy().reshape(result, outputs),
        )  # fmt: skip
        return out


def _block(inputs: int, outputs: int) -> int:
    """Return rows of a block: a function of the layer, never of the machine."""
    return ROWS if outputs > NARROW else max(LEAST, min(ROWS, VALUES // (2 * (inputs + outputs))))


def _array(vector: Tensor | None) -> np.ndarray:
    return _NONE if vector is None else vector.float().contiguous().numpy()  # an expanded bias has one number in memory


def _words(x: Tensor) -> np.ndarray:
    """Return bfloat16 numbers, which numpy does not have, as words of 16 bits."""
    words: np.ndarray = x.view(torch.uint16).numpy()
    return words
