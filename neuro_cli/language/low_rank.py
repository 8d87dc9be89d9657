"""Low-rank additions to the linear layers of a frozen network (Hu et al. 2021: LoRA)."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.language.blocks import BlockLinear


class LowRankLinear(nn.Module):
    """Linear layer ``inner`` plus ``x down^T up^T``: ``down`` (rank, I) of variance 1 / I, ``up`` (O, rank) zero at first."""

    def __init__(self, inner: nn.Linear | BlockLinear, rank: int) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Parameter(torch.randn(rank, inner.in_features) / math.sqrt(inner.in_features))
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        added = nn.functional.linear(nn.functional.linear(x, self.down), self.up)
        result: Tensor = self.inner(x) + added
        return result

    @torch.no_grad()
    def weight(self) -> Tensor:
        """Return the weight (O, I) float32 of one linear layer with the same outputs."""
        weight = self.inner.dense() if isinstance(self.inner, BlockLinear) else self.inner.weight.float()
        return weight + self.up.float() @ self.down.float()


def add_low_rank(pretrained: Any, rank: int) -> None:
    """Replace all linear layers of a network but its heads by :class:`LowRankLinear`."""
    body = pretrained.base_model
    for name, layer in [pair for pair in body.named_modules() if type(pair[1]) in (nn.Linear, BlockLinear)]:
        place, _, last = name.rpartition(".")
        setattr(body.get_submodule(place), last, LowRankLinear(layer, rank))


def sums(pretrained: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and weight of the linear layers with low-rank additions, by the names of the network without them."""
    for name, layer in pretrained.named_modules():
        if isinstance(layer, LowRankLinear):
            yield f"{name}.weight", layer.weight()
