"""Triton kernels for a device: imported and tried once, when a tensor on a GPU first needs them."""

import logging
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from neuro_cli.core import philox

log = logging.getLogger(__name__)


def row_kernels(x: Tensor) -> Any:
    """The module :mod:`neuro_cli.core.triton_rows` where it serves the device and the float type of ``x``, else None."""
    if x.device.type == "cpu" or noise_kernels(x.device.type) is None:
        return None
    from neuro_cli.core import triton_rows

    return triton_rows if x.dtype in triton_rows.SERVED else None


def layer_kernels(x: Tensor) -> Any:
    """The module :mod:`neuro_cli.core.triton_layers` where it serves the device and the float type of ``x``, else None."""
    if row_kernels(x) is None:
        return None
    from neuro_cli.core import triton_layers

    return triton_layers


@lru_cache(maxsize=8)
def noise_kernels(device_type: str) -> Any:
    """The module :mod:`neuro_cli.core.triton_noise`, or None (with a line in the log) where it does not work."""
    if device_type != "cuda":
        return None
    try:
        from neuro_cli.core import triton_noise

        directions = torch.arange(2, device=device_type)
        made = triton_noise.draw((1, 0), 2, directions, 0, 3, 2000, law=True)
        expected = philox.normals(philox.words((1, 0), 2, directions, 0, 3, 2000))
        if not torch.equal(made, expected):
            raise RuntimeError("they make other numbers")
    except Exception as error:  # no Triton, no compiler for its launcher, a driver that it does not know
        log.warning("Triton kernels do not work here (%s): torch operations are used, slower", " ".join(str(error).split())[:200])
        return None
    return triton_noise


def keep_float32(device: torch.device, precision: torch.dtype) -> None:
    """Let convolutions in float32 be that: cuDNN's default rounds their factors to 10 bits of mantissa (TF32)."""
    if device.type == "cuda" and precision == torch.float32:
        torch.backends.cudnn.allow_tf32 = False
