"""Size of a tensor's values."""

import math

import torch
from torch import Tensor


def root_mean_square(x: Tensor) -> float:
    """Return the root of the mean square of the values of ``x``."""
    # torch adds up a norm one by one in float32, and a mean by halves: findings/torch_long_norms.sh
    return math.sqrt(float(x.to(torch.promote_types(x.dtype, torch.float32)).square().mean()))
