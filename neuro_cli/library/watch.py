"""Hooks that watch a module's inputs, to set their precision and memory format and to compare ranks."""

import threading
import zlib
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.module.precision import COMPUTES_IN


def checksum(values: Tensor) -> int:
    """Return the CRC-32 of the values of a tensor, whatever its layout and device."""
    plain = values.detach().cpu().contiguous()
    return zlib.crc32(plain.view(-1).view(torch.uint8).numpy().data) if plain.numel() else 0


class Watch:
    """Hooks on a module, shared with its copies: they convert inputs to ``precision`` and outputs back to float32.

    ``first``: the first input ever; ``common``, with ``compare``: the first input of every member since :meth:`reset`, if all
    are equal.
    """

    def __init__(self, module: nn.Module, precision: torch.dtype, compare: bool) -> None:
        self.first: Tensor | None = None
        self.common: Tensor | None = None
        self._alike = True
        self._member = threading.local()
        self._lock = threading.Lock()

        # plain functions: copies of the module share them, while a bound method would copy this object too
        def before(part: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if (compare or self.first is None) and inputs and isinstance(inputs[0], Tensor):
                self._meet(inputs[0])
            if precision == torch.float32:
                return None
            wanted = getattr(part, COMPUTES_IN, precision)  # a trial's is another
            floats = (isinstance(value, Tensor) and value.is_floating_point() for value in inputs)
            return tuple(value.to(wanted) if is_float else value for value, is_float in zip(inputs, floats, strict=True))

        def after(_: nn.Module, inputs: Any, output: Any) -> Any:
            return output.float() if isinstance(output, Tensor) and output.dtype == precision else output

        module.register_forward_pre_hook(before)
        if precision != torch.float32:
            module.register_forward_hook(after)

    def reset(self) -> None:
        """Forget the watched inputs of the last generation's members."""
        self.common, self._alike = None, True

    def begin(self) -> None:
        """Begin to watch a member on this thread."""
        self._member.fresh = True

    def _meet(self, inputs: Tensor) -> None:
        if not getattr(self._member, "fresh", False):
            return
        self._member.fresh = False
        with self._lock:
            if self.first is None:
                self.first = inputs
            if self.common is None and self._alike:
                self.common = inputs
            elif self.common is not None and inputs is not self.common:
                self._alike = inputs.shape == self.common.shape and bool(torch.equal(inputs, self.common))
                self.common = self.common if self._alike else None
