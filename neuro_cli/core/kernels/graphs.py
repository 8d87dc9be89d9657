"""CUDA graphs: record the kernel launches of a function once, and replay them as one launch.

A pass of small members is tens of launches, which the device finishes faster than Python issues them. A graph contains the
addresses of its tensors and the numbers of its arguments. So tensors are copied into its own memory, and another number needs
another graph.
"""

import logging
from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

log = logging.getLogger(__name__)

SMALL = 2**24  # most numbers that are copied to a graph
GRAPHS = 4  # limit for a function: if a number changes each time, no graph is used twice

Function = Callable[..., Tensor]


class Recorded:
    """Recorded function of tensors of one form, with the memory that it reads and writes."""

    def __init__(self, function: Function, tensors: Sequence[Tensor]) -> None:
        self._read = [tensor.clone() for tensor in tensors]
        self._graph = torch.cuda.CUDAGraph()
        refuse_waits(function, self._read)
        with torch.cuda.graph(self._graph):
            self._written = function(*self._read)

    def __call__(self, tensors: Sequence[Tensor]) -> Tensor:
        for place, tensor in zip(self._read, tensors, strict=True):
            place.copy_(tensor)
        self._graph.replay()
        return self._written.clone()  # the next call overwrites it


def refuse_waits(function: Function, tensors: Sequence[Tensor]) -> None:
    """Raise RuntimeError where the host waits for the device in ``function``.

    A graph that it would end while it is recorded leaves torch's allocator and stream as they were inside.
    """
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        function(*tensors)
    finally:
        torch.cuda.set_sync_debug_mode(before)
    torch.cuda.synchronize()


class Graphs:
    """Calls functions by graphs where that is possible, else as they are. ``what`` they do, for the log.

    The first call of a form is not recorded, since kernels are compiled and chosen in it; the second one is.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._met: set[Hashable] = set()
        self._recorded: dict[Hashable, Recorded] = {}
        self._refused = False

    def __call__(self, numbers: Hashable, function: Function, tensors: Sequence[Tensor]) -> Tensor:
        """Return ``function(*tensors)``; ``numbers``: all else that it depends on."""
        if self._refused:
            return function(*tensors)
        if sum(tensor.numel() for tensor in tensors) > SMALL:
            return self.without("the members are not small", function, tensors)
        key = (numbers, *((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors))
        if key not in self._met:
            if len(self._met) == GRAPHS:
                return self.without("scales or shapes change too often", function, tensors)
            self._met.add(key)
            return function(*tensors)
        if key not in self._recorded:
            try:
                self._recorded[key] = Recorded(function, tensors)
            except RuntimeError as error:  # the host waits for the device, for one
                return self.without(str(error).strip().partition("\n")[0][:160], function, tensors)
            log.info("%s: one CUDA graph from here on", self._what)
        return self._recorded[key](tensors)

    def without(self, reason: str, function: Function, tensors: Sequence[Tensor]) -> Tensor:
        """Return ``function(*tensors)``, now and from now on, with a line in the log."""
        if not self._refused:
            log.warning("cuda_graphs=true, but %s are launched one by one, slower: %s", self._what, reason)
        self._refused = True
        self._recorded.clear()
        return function(*tensors)
