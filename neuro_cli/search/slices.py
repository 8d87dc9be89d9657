"""Data-parallel training of a candidate: gradients of a batch in slices, which the ranks of a worker share.

Each slice has its gradients, which are summed in the order of the slices. So the numbers depend on the number of slices,
but not on the number of ranks that share them.
"""

from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.fabric.shares import shares
from neuro_cli.fabric.start import launched, launched_world
from neuro_cli.task.classification import Classification


def world_of_task() -> World:
    """Return the world of the ranks that share a candidate's slices; a single process in a worker without ``worker.ranks``."""
    return launched_world() if launched() else SingleProcess()


class SlicedBatch:
    """Gradients over a batch of ``task`` in ``slices`` >= 1 parts, which the ranks of ``world`` share.

    Every rank has the complete model and every example. Batch norm sees one slice at a time, and its running statistics are the
    mean over the slices.
    """

    def __init__(self, model: nn.Module, task: Classification, slices: int, world: World) -> None:
        self._model, self._task, self._slices, self._world = model, task, slices, world
        self._parameters = list(model.parameters())
        self._counts = [len(range(rank, slices, world.size)) for rank in range(world.size)]
        # rank 0 takes the first slices, so that the batch norm of its model counts every step
        first = sum(self._counts[: world.rank])
        self._own = range(first, first + self._counts[world.rank])

    def backward(self, step: int, batch_size: int) -> Tensor:
        """Set the gradients of the mean loss over the batch of ``step``, the same bits on every rank. Returns that loss, ()."""
        if self._slices == 1:
            loss = self._task.loss(self._model, self._task.batch(step, 0, batch_size))
            loss.backward()
            return loss.detach()
        before = [buffer.clone() for buffer in self._model.buffers()]
        parts = shares(batch_size, self._slices)
        vectors = [self._vector(step, *parts[place], batch_size, before) for place in self._own]
        length = self._length()
        own = np.concatenate(vectors) if vectors else np.empty(0, np.float32)
        rows = self._world.all_gather(own, [count * length for count in self._counts]).reshape(self._slices, length)
        total = rows[0].copy()
        for row in rows[1:]:
            total += row
        return self._take(torch.from_numpy(total))

    def _length(self) -> int:
        return 1 + sum(tensor.numel() for tensor in chain(self._parameters, self._statistics()))

    def _statistics(self) -> list[Tensor]:
        return [buffer for buffer in self._model.buffers() if buffer.is_floating_point()]

    def _vector(self, step: int, start: int, stop: int, batch_size: int, before: list[Tensor]) -> np.ndarray:
        """Return one slice's part of the loss, the gradients and the statistics, float32 (length,)."""
        with torch.no_grad():
            for buffer, value in zip(self._model.buffers(), before, strict=True):
                buffer.copy_(value)
        loss = self._task.loss(self._model, self._task.batch(step, start, stop)) * ((stop - start) / batch_size)
        gradients = torch.autograd.grad(loss, self._parameters)
        statistics = [buffer / self._slices for buffer in self._statistics()]
        parts = [part.detach().reshape(-1).float().cpu() for part in (loss, *gradients, *statistics)]
        return torch.cat(parts).numpy()

    def _take(self, total: Tensor) -> Tensor:
        """Set gradients and statistics to their sums. Returns the loss."""
        sizes = [tensor.numel() for tensor in chain(self._parameters, self._statistics())]
        loss, *values = total.split([1, *sizes])
        for parameter, value in zip(self._parameters, values, strict=False):
            parameter.grad = value.view_as(parameter).to(parameter.device, parameter.dtype)
        with torch.no_grad():
            for buffer, value in zip(self._statistics(), values[len(self._parameters) :], strict=True):
                buffer.copy_(value.view_as(buffer))
        return loss.squeeze(0)
