"""Memory formats of images in which the passes of a network run."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

log = logging.getLogger(__name__)

# the fastest first
FORMATS = (torch.channels_last, torch.contiguous_format)
# Most values of a channel that batch norm may add up in channels_last. On a CPU torch 2.14 adds them one after the other in
# float32, so that errors of normalised values grow with their number: 1e-4 here, 7e-3 for 64 images of 224 x 224, 0.35 for 40 of
# 1024 x 1024 (findings/torch_batch_norm_channels_last.sh)
SUMMED = 2**17


GROUP_NORM = "group norm of channels_last activations subtracts sums of squares, which loses digits"


class GroupNorms(TorchFunctionMode):
    """Context that notes whether a call of ``group_norm`` is made on a CPU, by a module, a function or an operator.

    There torch 2.14 takes the variance of channels_last activations as E[x^2] - E[x]^2 in float32. Normalised values are
    off by 7 for an image of one value with an edge, and by 0.04 where the mean is 100 deviations
    (findings/torch_group_norm_channels_last.sh).
    """

    seen = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if "group_norm" in getattr(func, "__name__", ""):
            given = args[0] if args else kwargs["input"]
            self.seen |= given.device.type == "cpu"
        return func(*args, **kwargs)


def formats_of(module: nn.Module, values: int) -> tuple[torch.memory_format, ...]:
    """Return the memory formats to try, best first; ``values``: of a channel in a batch of the images."""
    parameter = next(module.parameters(), None)
    if parameter is None or parameter.device.type != "cpu":
        return FORMATS
    parts = list(module.modules())
    if any(_has_group_norm(part) for part in parts):
        log.info("contiguous activations are used: %s", GROUP_NORM)
        return FORMATS[1:]
    if values > SUMMED and any(isinstance(part, _BatchNorm) and (part.training or part.running_mean is None) for part in parts):
        log.info("contiguous activations are used, in which torch's sums are accurate: batch norm adds up %d values", values)
        return FORMATS[1:]
    return FORMATS


def _has_group_norm(part: nn.Module) -> bool:
    """Return whether a module is a group norm, or a scripted or traced one with a call of it, which no context sees."""
    return isinstance(part, nn.GroupNorm) or (
        isinstance(part, torch.jit.ScriptModule) and hasattr(part, "graph") and "group_norm" in str(part.inlined_graph)
    )


def format_of(scalars: Mapping[str, Any]) -> torch.memory_format:
    """Return the memory format of a checkpoint with these ``scalars``; early ones name none, and have channels_last."""
    return FORMATS[0] if scalars.get("channels_last", True) else FORMATS[1]


def values_of_channel(images: Tensor) -> int:
    """Return how many values a channel of ``images`` (B, C, ..) has; 0 for fewer than two dimensions."""
    return images.numel() // images.shape[1] if images.dim() > 1 and images.numel() else 0
