"""Small transformer that predicts each token of a text from those before it (Radford et al. 2019: GPT-2).

Blocks of causal attention and a layer of GELU, each behind a layer norm; learned positions; the head is the embedding's weight.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.core.errors import ConfigError


class Block(nn.Module):
    """Residual block on (B, T, width): attention, then two linear layers, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.attended = nn.Linear(width, width, bias=False)
        self.widened, self.narrowed = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self._attention(self.before_attention(x))
        added: Tensor = self.narrowed(F.gelu(self.widened(self.before_layers(x))))
        return x + added

    def _attention(self, x: Tensor) -> Tensor:
        """Return each position's weighted mean over itself and earlier positions; queries and keys give the weights."""
        parts = self.queries_keys_values(x).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)  # (B, heads, 3, T, width / heads)
        query, key, value = parts.unbind(2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: Tensor = self.attended(mixed.transpose(1, 2).flatten(2))
        return result


class CharGPT(nn.Module):
    """Tokens (B, T) int64 to logits (B, T, outputs), T <= ``context``. Logits at position t depend only on tokens up to t.

    ``outputs``: tokens in the vocabulary; ``width``: size of a position's vector, a multiple of ``heads``; ``depth``: blocks.
    """

    def __init__(self, outputs: int | None, context: int, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        if outputs is None:
            raise ConfigError("model.outputs", None, "the task does not set it, so a number is needed")
        for key, value in (("outputs", outputs), ("context", context), ("width", width), ("depth", depth), ("heads", heads)):
            integer(f"model.{key}", value, 1)
        if width % heads:
            raise ConfigError("model.width", width, f"must be a multiple of model.heads={heads}")
        self.input_shape, self.input_tokens = (context,), outputs
        self.tokens, self.positions = nn.Embedding(outputs, width), nn.Embedding(context, width)
        blocks = [Block(width, heads) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.last_norm = nn.LayerNorm(width)
        self._initialise(blocks)

    def _initialise(self, blocks: list[Block]) -> None:
        """Draw normal weights of deviation 0.02, smaller in the layers that add to a sum of all blocks (GPT-2)."""
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
        for block in blocks:
            for layer in (block.attended, block.narrowed):
                nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * len(blocks)))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return F.linear(self.last_norm(self.blocks(x)), self.tokens.weight)
