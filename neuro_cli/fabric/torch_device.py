"""Ranks of torch.distributed whose tensors never leave their GPUs: NCCL moves bytes, sums are formed in rank order.

NCCL's own sum would depend on its algorithm and on the number of ranks. A sum in rank order sends shares of the values to the
ranks that add them up and gathers the shares: with N ranks 2 (N - 1) / N of the bytes cross the wire, as in NCCL's ring.
"""

import logging
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from neuro_cli.core.errors import ConfigError
from neuro_cli.fabric.base import World
from neuro_cli.fabric.collectives import Messages

log = logging.getLogger(__name__)

BACKENDS = {"cuda": "nccl"}
SWITCH = "NEURO_NCCL"  # 0: GPUs' tensors cross in the host's memory
ALIGN = 8  # bytes at whose multiples messages begin, so that they can be viewed as floats
# torch 2.14 calls it all_gather_single
_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
PROBE = 1001  # bytes of the messages by which the ranks try the backend


class DeviceMessages(Messages):
    """Gather into ``received`` (N, most) where rank j's first ``counts[j]`` bytes count; ``sent`` is kept for it."""

    def __init__(self, work: Any, sent: Tensor, received: Tensor, counts: list[int]) -> None:
        self._work, self._sent, self._received, self._counts = work, sent, received, counts

    def test(self) -> bool:
        return bool(self._work.is_completed())

    def wait(self) -> Sequence[Tensor]:
        self._work.wait()  # a GPU's stream waits, the host continues
        return [row[:count] for row, count in zip(self._received, self._counts, strict=True)]


class DeviceRanks:
    """Ranks of ``group``, which gathers and exchanges tensors of one device; ``count`` is told bytes sent and received."""

    def __init__(self, group: Any, size: int, count: Callable[[int, int], None]) -> None:
        self._group, self._size, self._count = group, size, count
        self._rank = dist.get_rank(group)

    def begin_gather(self, message: Tensor, counts: list[int]) -> Messages:
        """Begin to gather ``message`` (uint8) of ``counts[j]`` bytes on rank j."""
        self._count(message.numel(), sum(counts) - message.numel())
        most = -(-max(counts) // ALIGN) * ALIGN
        sent = torch.nn.functional.pad(message, (0, most - message.numel()))
        received = torch.empty(self._size, most, dtype=torch.uint8, device=message.device)
        work = _gather(received.view(-1), sent, group=self._group, async_op=True)
        return DeviceMessages(work, sent, received, counts)

    def exchanged(self, parts: list[Tensor]) -> list[Tensor]:
        """Return part ``rank`` (uint8) of every rank's ``parts``, in rank order; part j has one length on all ranks."""
        lengths = [len(part) for part in parts]
        own = lengths[self._rank]
        self._count(sum(lengths) - own, (self._size - 1) * own)
        received = torch.empty(self._size * own, dtype=torch.uint8, device=parts[0].device)
        dist.all_to_all_single(received, torch.cat(parts), [own] * self._size, lengths, group=self._group)
        return list(received.view(self._size, own))

    def summed(self, values: Tensor) -> Tensor:
        """Return the sum of ``values`` in rank order: each rank adds a share up, then all gather the shares."""
        self._count(values.nbytes, values.nbytes)
        flat = values.reshape(-1)
        share = -(-len(flat) // self._size)
        sent = torch.nn.functional.pad(flat, (0, share * self._size - len(flat)))
        parts, total = torch.empty_like(sent), torch.empty_like(sent)
        dist.all_to_all_single(parts, sent, group=self._group)
        own, *others = parts.view(self._size, share)
        for part in others:
            own += part
        _gather(total, own.contiguous(), group=self._group)
        return total[: len(flat)].view(values.shape)


def device_ranks(world: World, device: torch.device, seconds: float, count: Callable[[int, int], None]) -> DeviceRanks | None:
    """Return the ranks of ``world`` on GPUs, or None with the reason in the log. Every rank calls this. Raises ConfigError.

    Ranks that share a GPU, and a backend that does not bring the bytes of the host's messages, leave tensors to the host.
    """
    backend = BACKENDS.get(device.type)
    if backend is None or world.any(_switched_off()):
        return None
    if not _one_device_each(world, device):
        log.info("ranks share a GPU, which NCCL refuses: sums cross in the host's memory")
        return None
    ranks = DeviceRanks(dist.new_group(backend=backend, timeout=timedelta(seconds=seconds)), world.size, count)
    reason = _trial(world, ranks, device)
    if world.any(bool(reason)):
        log.warning("%s is not used (%s): sums cross in the host's memory", backend, reason or "it failed on another rank")
        return None
    log.info("sums stay on the GPUs: %s", backend)
    return ranks


def _switched_off() -> bool:
    value = os.environ.get(SWITCH, "1")
    if value not in ("0", "1"):
        raise ConfigError(SWITCH, value, "must be 0 or 1")
    return value == "0"


def _one_device_each(world: World, device: torch.device) -> bool:
    name = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else f"rank {world.rank}"
    own = torch.tensor(list(name.encode().ljust(64)[:64]), dtype=torch.uint8).numpy()
    rows = world.all_gather(own, [own.size] * world.size).reshape(world.size, -1)
    return len({row.tobytes() for row in rows}) == world.size


def _trial(world: World, ranks: DeviceRanks, device: torch.device) -> str:
    """Return why ``ranks`` cannot be used; empty where its messages and sums are those of the host."""
    counts = [PROBE + rank for rank in range(world.size)]
    own = torch.arange(counts[world.rank], device=device).mul_(7 + world.rank).to(torch.uint8)
    parts = [own[:length] for length in range(PROBE - world.size, PROBE)]
    values = torch.rand(PROBE, generator=torch.Generator().manual_seed(world.rank))
    try:
        gathered = torch.cat([*ranks.begin_gather(own, counts).wait(), *ranks.exchanged(parts)]).cpu()
        total = ranks.summed(values.to(device)).cpu()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    blocks = world.all_to_all([part.cpu().numpy() for part in parts])
    wanted = torch.from_numpy(np.concatenate([world.all_gather(own.cpu().numpy(), counts), *blocks]))
    rows = torch.from_numpy(world.all_gather(values.numpy(), [PROBE] * world.size)).view(world.size, -1)
    first, *others = rows
    for row in others:
        first = first + row
    return "" if torch.equal(gathered, wanted) and torch.equal(total, first) else "its bytes are not those of the host's ranks"
