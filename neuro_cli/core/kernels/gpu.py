"""Triton kernels for a device: imported and tried once, when a tensor on a GPU first needs them."""

import logging
import subprocess
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.core import philox

log = logging.getLogger(__name__)


def row_kernels(x: Tensor) -> Any:
    """Return :mod:`neuro_cli.core.kernels.triton_rows` where it serves the device and the float type of ``x``, else None."""
    if x.device.type == "cpu" or noise_kernels(x.device.type) is None:
        return None
    from neuro_cli.core.kernels import triton_rows

    return triton_rows if x.dtype in triton_rows.SERVED else None


@lru_cache(maxsize=1)
def card() -> str:
    """Name of the CUDA device and version of its driver."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.strip().splitlines()
        name, driver = said[torch.cuda.current_device() % len(said)].rsplit(", ", 1)
    except (OSError, subprocess.SubprocessError, ValueError, ZeroDivisionError):
        return f"{torch.cuda.get_device_name()}, driver not known"
    return f"{name}, driver {driver}"


def sum_kernels(x: Tensor) -> Any:
    """Return the module :mod:`neuro_cli.core.kernels.triton_sums` where it serves the device of ``x``, else None."""
    if x.device.type == "cpu" or noise_kernels(x.device.type) is None:
        return None
    from neuro_cli.core.kernels import triton_sums

    return triton_sums


def layer_kernels(x: Tensor) -> Any:
    """Return :mod:`neuro_cli.core.kernels.triton_layers` where it serves the device and the float type of ``x``, else None."""
    if row_kernels(x) is None:
        return None
    from neuro_cli.core.kernels import triton_layers

    return triton_layers


@lru_cache(maxsize=8)
def noise_kernels(device_type: str) -> Any:
    """Return the module :mod:`neuro_cli.core.kernels.triton_noise`, or None (with a line in the log) where it does not work."""
    if device_type != "cuda":
        return None
    try:
        from neuro_cli.core.kernels import triton_noise

        directions = torch.arange(2, device=device_type)
        result = triton_noise.draw((1, 0), 2, directions, 0, 3, 2000, law=True)
        expected = philox.normals(philox.words((1, 0), 2, directions, 0, 3, 2000))
        if not torch.equal(result, expected):
            raise RuntimeError("they make other numbers")
    except Exception as error:  # no Triton, no compiler for its launcher, a driver that it does not know
        log.warning("Triton kernels do not work here (%s): torch operations are used, slower", " ".join(str(error).split())[:200])
        return None
    return triton_noise


TERMS = 2048  # terms of a product at once, so that the parts of both factors take little memory


def product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """Multiply left (M, K) and right (K, N) float32 into ``out``, by tensor cores where the GPU has them for float32.

    Each factor is a number of 11 bits and a remainder; three products of those in TF32 err as one in float32 does.
    """
    if left.device.type != "cuda" or torch.cuda.get_device_capability(left.device) < (8, 0):
        return torch.mm(left, right, out=out)
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, True
    try:
        for low in range(0, left.shape[1], TERMS):
            a, b = left[:, low : low + TERMS].contiguous(), right[low : low + TERMS].contiguous()
            high, tall = leading(a), leading(b)
            parts = torch.cat([high, high, a - high], 1), torch.cat([tall, b - tall, tall])
            out.addmm_(*parts) if low else torch.mm(*parts, out=out)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return out


def leading(x: Tensor) -> Tensor:
    """Return ``x`` float32 without the last 13 bits of the mantissa, which TF32 does not have."""
    return (x.view(torch.int32) & -(1 << 13)).view(torch.float32)


def sent(values: np.ndarray, device: torch.device) -> Tensor:
    """Return ``values`` on the device. The host does not wait, as it does for a copy from memory that the system may move."""
    here = torch.from_numpy(np.ascontiguousarray(values))
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.to(device)


def keep_float32(device: torch.device, precision: torch.dtype) -> None:
    """Let convolutions in float32 be that: cuDNN's default rounds their factors to 10 bits of mantissa (TF32)."""
    if device.type == "cuda" and precision == torch.float32:
        torch.backends.cudnn.allow_tf32 = False
