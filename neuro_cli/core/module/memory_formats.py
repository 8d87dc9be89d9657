"""Memory formats of images in which the passes of a network run."""

import logging

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

log = logging.getLogger(__name__)

# the fastest first
FORMATS = (torch.channels_last, torch.contiguous_format)
# Most values of a channel that batch norm may add up in channels_last. On a CPU torch 2.14 adds them one after the other in
# float32, so that errors of normalised values grow with their number: 1e-4 here, 7e-3 for 64 images of 224 x 224, 0.35 for 40 of
# 1024 x 1024 (findings/torch_batch_norm_channels_last.sh)
SUMMED = 2**17


def formats_of(module: nn.Module, values: int) -> tuple[torch.memory_format, ...]:
    """Return the memory formats to try, best first; ``values``: of a channel in a batch of the images."""
    parameter = next(module.parameters(), None)
    if values <= SUMMED or parameter is None or parameter.device.type != "cpu":
        return FORMATS
    if not any(isinstance(part, _BatchNorm) and (part.training or part.running_mean is None) for part in module.modules()):
        return FORMATS
    log.info(
        "batch norm adds up %d values of a channel: contiguous activations are used, in which torch's sums are accurate", values
    )
    return FORMATS[1:]


def values_of_channel(images: Tensor) -> int:
    """Return how many values a channel of ``images`` (B, C, ..) has; 0 for fewer than two dimensions."""
    return images.numel() // images.shape[1] if images.dim() > 1 and images.numel() else 0
