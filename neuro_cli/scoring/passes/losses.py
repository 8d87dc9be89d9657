"""Losses of many members' rows, in the calls of a task or of a user's fitness."""

from typing import Any

import torch
from torch import Tensor

from neuro_cli.core.kernels.compiled import loss_kernels


def cross_entropy(
    input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Return torch's cross-entropy of each row, in one pass over float32 logits whose classes lie side by side on a CPU.

    NotImplemented elsewhere, and for a target that is no class, which torch names. A row has the same bits wherever it lies.
    """
    changed = (
        (weight, size_average, reduce) != (None,) * 3 or reduction != "none" or label_smoothing or type(ignore_index) is not int
    )
    if changed or type(input) is not Tensor or type(target) is not Tensor or input.dim() < 2 or not input.numel():
        return NotImplemented
    kinds = input.dtype, target.dtype, input.device.type, target.device.type
    if kinds != (torch.float32, torch.int64, "cpu", "cpu") or input.requires_grad:
        return NotImplemented
    rows = input.movedim(1, -1)
    if not rows.is_contiguous() or target.shape != rows.shape[:-1]:
        return NotImplemented
    out, logits, targets = torch.empty(target.numel()), rows.view(-1, rows.shape[-1]), target.reshape(-1).numpy()
    served = loss_kernels.cross_entropies(logits.numpy(), targets, ignore_index, out.numpy())
    return out.view(target.shape) if served else NotImplemented
