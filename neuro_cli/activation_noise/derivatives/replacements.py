"""Replacements for calls that torch 2.14 does not differentiate twice; nor does it batch attention under vmap on a CPU."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Compute attention by matrix products. With ``enable_gqa`` several heads of ``query`` in a row share a head of ``key``."""
    if enable_gqa:
        key, value = (each.repeat_interleave(query.shape[-3] // each.shape[-3], -3) for each in (key, value))
    weights = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        later = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).triu(1)
        weights = weights.masked_fill(later, -torch.inf)
    if attn_mask is not None:
        allowed = attn_mask.dtype == torch.bool
        weights = weights.masked_fill(attn_mask.logical_not(), -torch.inf) if allowed else weights + attn_mask
    return weights.softmax(-1) @ value


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Compute ``F.hardsigmoid`` by a clamp, or by torch where it overwrites its input."""
    return F.hardsigmoid(input, True) if inplace else (input + 3).clamp(0, 6) / 6


REPLACEMENTS: dict[Any, Callable[..., Any]] = {F.scaled_dot_product_attention: attention, F.hardsigmoid: hardsigmoid}
