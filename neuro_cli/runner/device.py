"""The device of a rank: the CPU, or one of the GPUs of its machine."""

import logging
import os

import torch

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import World

log = logging.getLogger(__name__)


def device_of(name: str, local_rank: int = 0) -> torch.device:
    """Return the device that ``device=name`` means for rank ``local_rank`` of a machine. Raises ConfigError.

    ``auto``: a CUDA device, else the CPU. Several GPUs are dealt to the local ranks in turn.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cpu" if not count else "cuda" if count == 1 else f"cuda:{local_rank % count}")
    allowed = f"must be auto, cpu or cuda[:N]; {torch.cuda.device_count()} CUDA devices here"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError("device", name, allowed) from error
    usable = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    if device.type != "cpu" and not usable:
        raise ConfigError("device", name, allowed)
    return device


def take_device(name: str, world: World) -> torch.device:
    """Return the device of this rank and make it the process's current one, where kernels run. Raises ConfigError."""
    device = device_of(name, world.local_rank)
    if device.index is not None:
        torch.cuda.set_device(device)
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    one_each = count == 1 and "CUDA_VISIBLE_DEVICES" in os.environ  # a launcher may show each rank another GPU
    if name == "auto" and 0 < count < world.local_size and not one_each:
        log.warning("device=auto: %d ranks share the %d GPU%s of this machine", world.local_size, count, "s" * (count > 1))
    return device
