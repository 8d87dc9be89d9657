"""How far two results of the same arithmetic in another order may differ, relative to the largest: one table for all trials."""

from collections.abc import Callable
from typing import TypeVar

import torch

from neuro_cli.core.errors import UserError

SCALE = 0.1  # size of the noise in trials, relative to what it perturbs
_RELATIVE = {torch.float64: 1e-6, torch.float32: 1e-3}
TWICE = 1e-5  # share by which one score computed twice may differ
T = TypeVar("T")


def tolerance(dtype: torch.dtype) -> float:
    """Return the share of the largest number by which results in ``dtype`` may differ; 0.1 in half precision."""
    return _RELATIVE.get(dtype, 0.1)


def in_float64(trial: Callable[[torch.dtype], T], precision: torch.dtype) -> T:
    """Run a trial in float64, since rounding alone may part two passes of float32 widely and would hide a mistake.

    It runs in ``precision`` where the module does not take float64, as one that makes tensors of its own float type.
    """
    try:
        return trial(torch.float64)
    except UserError:
        raise
    except Exception:  # any kind: the module's own
        return trial(precision)
