"""Gathers, exchanges and sums of tensors over ranks: on their device where the world can, else by way of the host."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from neuro_cli.fabric.base import Arrived, Exchange, World


class Messages(ABC):
    """Messages, a gather of one (uint8) of every rank that may not be complete yet."""

    @abstractmethod
    def test(self) -> bool:
        """Return whether the gather is complete. MPI libraries may move data only in such calls."""

    @abstractmethod
    def wait(self) -> Sequence[Tensor]:
        """Wait for the gather and return the messages in rank order, on the device of this rank's message."""


class HostMessages(Messages):
    """Messages of ``counts`` bytes that cross the wire in the host's memory, for tensors on ``device``."""

    def __init__(self, exchange: Exchange, counts: list[int], device: torch.device) -> None:
        self._exchange, self._counts, self._device = exchange, counts, device

    def test(self) -> bool:
        return self._exchange.test()

    def wait(self) -> Sequence[Tensor]:
        return torch.from_numpy(self._exchange.wait()).to(self._device).split(self._counts)


def begin_gather(world: World, message: Tensor, counts: list[int], overlap: bool) -> Messages:
    """Gather ``message`` (uint8), of ``counts[j]`` bytes on rank j. ``overlap``: return before the end."""
    ranks = world.on_device(message.device)
    if ranks is not None:
        return ranks.begin_gather(message, counts)
    block = message.cpu().numpy()
    exchange = world.start_all_gather(block, counts) if overlap else Arrived(world.all_gather(block, counts))
    return HostMessages(exchange, counts, message.device)


def summed(world: World, values: Tensor) -> Tensor:
    """Return the sum of ``values`` over the ranks, the same bits on all, which may be stored in ``values``."""
    ranks = world.on_device(values.device)
    if ranks is not None:
        return ranks.summed(values)
    block = values.contiguous().cpu().numpy()
    world.all_reduce(block)
    return torch.from_numpy(block).to(values.device)


def exchanged(world: World, parts: list[Tensor]) -> list[Tensor]:
    """Return part ``rank`` (uint8) of every rank's ``parts``, in rank order, on their device."""
    ranks = world.on_device(parts[0].device)
    if ranks is not None:
        return ranks.exchanged(parts)
    blocks = world.all_to_all([part.cpu().numpy() for part in parts])
    return [torch.from_numpy(block).to(parts[0].device) for block in blocks]
