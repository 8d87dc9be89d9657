"""Low-rank additions to the linear layers of a frozen network (Hu et al. 2021: LoRA)."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.language.blocks import BlockLinear


class LowRankLinear(nn.Module):
    """Linear layer ``inner`` plus ``x down^T up^T``: ``down`` (rank, I) of variance 1 / I, ``up`` (O, rank) zero at first.

    ``inner``: torch's, one in blocks, or GPT-2's; ``sizes``: I and O; ``transposed``: its weight is (I, O), as in GPT-2.
    """

    def __init__(self, inner: Any, sizes: tuple[int, int], rank: int, transposed: bool = False) -> None:
        super().__init__()
        self.inner: Any = inner
        self._transposed = transposed
        self.down = nn.Parameter(torch.randn(rank, sizes[0]) / math.sqrt(sizes[0]))
        self.up = nn.Parameter(torch.zeros(sizes[1], rank))

    def forward(self, x: Tensor) -> Tensor:
        added = nn.functional.linear(nn.functional.linear(x, self.down), self.up)
        result: Tensor = self.inner(x) + added
        return result

    @property
    def weight(self) -> Tensor:
        """Weight of ``inner`` alone, without the additions: a network that computes with it is refused. Raises ConfigError."""
        text = "the network uses the weight of a linear layer by itself, without its additions: must be norms, all, or a pattern"
        raise ConfigError("model.trainable", "lora", text)

    @torch.no_grad()
    def complete(self) -> Tensor:
        """Return the weight float32 of one layer like ``inner`` with the same outputs."""
        weight: Tensor = self.inner.dense() if isinstance(self.inner, BlockLinear) else self.inner.weight.float()
        added = self.up.float() @ self.down.float()
        return weight + (added.T if self._transposed else added)


def add_low_rank(pretrained: Any, rank: int) -> None:
    """Replace all linear layers of a network but its heads by :class:`LowRankLinear`."""
    from transformers.pytorch_utils import Conv1D  # late: transformers takes seconds

    body = pretrained.base_model
    for name, layer in [pair for pair in body.named_modules() if type(pair[1]) in (nn.Linear, BlockLinear, Conv1D)]:
        transposed = type(layer) is Conv1D
        sizes = (layer.nx, layer.nf) if transposed else (layer.in_features, layer.out_features)
        place, _, last = name.rpartition(".")
        setattr(body.get_submodule(place), last, LowRankLinear(layer, sizes, rank, transposed))


def sums(pretrained: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and weight of the linear layers with low-rank additions, by the names of the network without them."""
    for name, layer in pretrained.named_modules():
        if isinstance(layer, LowRankLinear):
            yield f"{name}.weight", layer.complete()
