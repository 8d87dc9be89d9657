"""Linear layers and embeddings with weights in the blocks of a GGUF file: few bits for a number, scales for 32 of them.

Each product dequantises what it uses and forgets it. Legend: O outputs, I inputs, W bytes of a row.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 32  # numbers
BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 34}  # bytes of a block
CHUNK = 2**20  # numbers of a weight that are dequantised at once


def dequantised(rows: Tensor, halves: Tensor, kind: str, dtype: torch.dtype) -> Tensor:
    """Return the numbers (.., I) of ``rows`` (.., W) uint8 in ``dtype``; ``halves`` (.., W / 2) are the same bytes as float16.

    They are worked out in float32, bit for bit as by ``gguf.quants.dequantize``, and then rounded.
    """
    width = BYTES[kind]
    blocks, scales = rows.unflatten(-1, (-1, width)), halves.unflatten(-1, (-1, width // 2))
    if kind == "Q8_0":
        numbers = blocks[..., 2:].to(torch.int8).float()
    else:
        pairs = blocks[..., width - BLOCK // 2 :]  # the low half of a byte is a number of the block's first half
        numbers = torch.cat([pairs & 15, pairs >> 4], -1).float()
    if kind == "Q4_0":
        numbers.sub_(8)
    numbers.mul_(scales[..., :1].float())
    if kind == "Q4_1":
        numbers.add_(scales[..., 1:2].float())
    return numbers.flatten(-2).to(dtype)


class BlockLinear(nn.Module):
    """Linear layer with ``blocks`` (O, W) uint8 of a ``kind`` in BYTES, and a ``bias`` (O,) or None.

    ``heads``: the rows of each of so many heads are in the order of llama.cpp, which rotates neighbours; None: they are not.
    """

    def __init__(self, blocks: nn.Parameter, kind: str, bias: nn.Parameter | None = None, heads: int | None = None) -> None:
        super().__init__()
        self.blocks, self.bias, self.kind, self.heads = blocks, bias, kind, heads
        self.out_features, self.in_features = len(blocks), blocks.shape[1] // BYTES[kind] * BLOCK

    def forward(self, x: Tensor) -> Tensor:
        blocks, step = self._ordered(), max(1, CHUNK // self.in_features)
        if step >= self.out_features:
            return F.linear(x, self._numbers(blocks, x.dtype), self.bias)
        parts = torch.cat([F.linear(x, self._numbers(rows, x.dtype)) for rows in blocks.split(step)], -1)
        return parts if self.bias is None else parts + self.bias

    @torch.no_grad()
    def dense(self) -> Tensor:
        """Return the weight (O, I) float32."""
        return self._numbers(self._ordered(), torch.float32)

    def _numbers(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        return dequantised(rows, rows.view(torch.float16), self.kind, dtype)

    def _ordered(self) -> Tensor:
        """Return the rows in the order of transformers, which rotates halves of a head."""
        if self.heads is None:
            return self.blocks
        return self.blocks.view(self.heads, -1, 2, self.blocks.shape[1]).transpose(1, 2).reshape(self.blocks.shape)


class BlockEmbedding(nn.Module):
    """Embedding with ``blocks`` (O, W) uint8 of a ``kind`` in BYTES; it returns numbers of the type of its parameter ``like``."""

    def __init__(self, blocks: nn.Parameter, kind: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.blocks, self.kind = blocks, kind
        # no numbers and no vector, which would be a norm; conversions of the network convert it
        self.like = nn.Parameter(torch.empty(0, 0, dtype=dtype), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        rows, halves = (F.embedding(tokens, table) for table in (self.blocks, self.blocks.view(torch.float16)))
        return dequantised(rows, halves, self.kind, self.like.dtype)
