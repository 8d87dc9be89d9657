"""Encodings of a row of sums on the wire: float32, bfloat16, or int8 with one scale per 256 columns.

A codec works on columns of the flat vector, cut at multiples of its ``block``; a number's bits then do not depend on
how the columns are shared among ranks. :mod:`neuro_cli.distribution.error_feedback` keeps the rounding errors.

Legend: K rows, n columns, b blocks of n.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.fabric.shares import shares

WIRES = ("float32", "bfloat16", "int8")
LEVELS = 127  # int8 values on either side of zero; -128 is left out for symmetry
CHUNK = 1 << 16  # columns encoded at once: intermediate values stay in the cache


class Codec(ABC):
    """Codec of sums (K, n) float32 into a message, uint8, and back. ``exact``: lossless."""

    exact = False
    block = 1

    @abstractmethod
    def size(self, rows: int, columns: int) -> int:
        """Return the bytes of the codec's message for (rows, columns)."""

    @abstractmethod
    def encode(self, values: Tensor) -> Tensor:
        """Encode ``values`` (K, n) that begin at a multiple of ``block`` as a message (size(K, n),) uint8."""

    @abstractmethod
    def decode(self, message: Tensor, rows: int, columns: int) -> Tensor:
        """Decode a message into values (K, n) float32, on its device."""


class Cast(Codec):
    """Cast to another float type: round to nearest, ties to even."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self.exact = dtype == torch.float32

    def size(self, rows: int, columns: int) -> int:
        return rows * columns * self._dtype.itemsize

    def encode(self, values: Tensor) -> Tensor:
        return values.to(self._dtype).contiguous().view(-1).view(torch.uint8)

    def decode(self, message: Tensor, rows: int, columns: int) -> Tensor:
        return aligned(message).view(self._dtype).view(rows, columns).float()


class Int8(Codec):
    """value = scale * q, q an integer from -127 to 127, scale = largest |value| of the block / 127.

    The message has the scales (K, b) float32, then all q (K, n). A block with a number that is not finite is decoded to numbers
    that are not finite, so that nothing hides them.
    """

    block = 256

    def size(self, rows: int, columns: int) -> int:
        return rows * (4 * -(-columns // self.block) + columns)

    def encode(self, values: Tensor) -> Tensor:
        scales, levels = [], []
        for low in range(0, values.shape[1], CHUNK):
            part = values[:, low : low + CHUNK]
            blocks = F.pad(part, (0, -part.shape[1] % self.block)).view(len(values), -1, self.block)
            scale = blocks.abs().amax(2) / LEVELS
            step = torch.where(scale == 0, 1.0, scale)  # all zero, or too small for a float32 scale: q is 0
            q = (blocks / step[..., None]).round_().clamp_(-LEVELS, LEVELS).to(torch.int8)
            scales.append(scale)
            levels.append(q.view(len(values), -1)[:, : part.shape[1]])
        if not scales:
            return torch.empty(0, dtype=torch.uint8, device=values.device)
        parts = [torch.cat(scales, 1).view(-1).view(torch.uint8), torch.cat(levels, 1).view(-1).view(torch.uint8)]
        return torch.cat(parts)

    def decode(self, message: Tensor, rows: int, columns: int) -> Tensor:
        if not columns:  # few parameters leave some ranks without a block
            return torch.empty(rows, 0, dtype=torch.float32, device=message.device)
        blocks = -(-columns // self.block)
        scales = aligned(message[: 4 * rows * blocks]).view(torch.float32).view(rows, blocks, 1)
        values = message[4 * rows * blocks :].view(torch.int8).view(rows, columns).float()
        padded = F.pad(values, (0, -columns % self.block))
        return padded.view(rows, blocks, self.block).mul_(scales).view(rows, -1)[:, :columns]


def codec_of(name: str) -> Codec:
    """Return the codec of a name among ``WIRES``."""
    return Int8() if name == "int8" else Cast(getattr(torch, name))


def aligned(message: Tensor) -> Tensor:
    """Return the codec's ``message`` at an aligned address, as a copy if need be: messages before it may end at any byte."""
    return message.clone() if message.data_ptr() % 8 else message


def slices(columns: int, parts: int, block: int) -> list[tuple[int, int]]:
    """Return the codec's columns [start, stop) of every part: even shares, cut at multiples of ``block``; some may be empty."""
    return [(min(low * block, columns), min(high * block, columns)) for low, high in shares(-(-columns // block), parts)]


def unpack(codec: Codec, messages: Sequence[Tensor], columns: list[tuple[int, int]], into: Tensor) -> None:
    """Decode the messages of all ranks into their columns of ``into`` (K, M)."""
    for message, (low, high) in zip(messages, columns, strict=True):
        if high > low:
            into[:, low:high] = codec.decode(message, len(into), high - low)
