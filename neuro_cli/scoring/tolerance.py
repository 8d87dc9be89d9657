"""How far two results of the same arithmetic in another order may differ, relative to the largest: one table for all trials."""

import torch

SCALE = 0.1  # size of the noise in trials, relative to what it perturbs
_RELATIVE = {torch.float64: 1e-6, torch.float32: 1e-3}
TWICE = 1e-5  # of one score computed twice in the same way


def tolerance(dtype: torch.dtype) -> float:
    """Return the share of the largest number by which results in ``dtype`` may differ; 0.1 in half precision."""
    return _RELATIVE.get(dtype, 0.1)
