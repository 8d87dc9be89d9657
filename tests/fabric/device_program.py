"""Runs before neuro on every rank: tensors move as between GPUs, here by gloo on the CPU; long messages of the host are counted.

``sums``: on their device. ``host``: the world's buffers of the host, where a tensor of a GPU would be a copy.
"""

import atexit
import os
import sys

import torch
from torch import Tensor

from neuro_cli.distribution.codec import Int8, slices, unpack
from neuro_cli.fabric import torch_device
from neuro_cli.fabric.collectives import begin_gather, exchanged, summed
from neuro_cli.fabric.start import launched_world
from neuro_cli.fabric.torch_world import TorchWorld, in_order

LONG = 6000  # bytes: scores, digests and the messages of the trial are shorter, sums of MNIST_10K longer
seen = {"sums": 0, "host": 0}


def watch(kind: type, name: str, place: str) -> None:
    """Count calls of a method whose first argument is long."""
    method = getattr(kind, name)

    def called(self, values, *rest):
        seen[place] += sum(each.nbytes for each in (values if isinstance(values, list) else [values])) >= LONG
        return method(self, values, *rest)

    setattr(kind, name, called)


for name in ("all_gather", "start_all_gather", "all_to_all", "all_reduce", "start_all_reduce"):
    watch(TorchWorld, name, "host")
for name in ("begin_gather", "exchanged", "summed"):
    watch(torch_device.DeviceRanks, name, "sums")

# the interface on tensors: host's messages first, then the same by the device's ranks
world = launched_world()
size = world.size
counts = [7 * rank + 9001 for rank in range(size)]
own = torch.randint(0, 256, (counts[world.rank],), dtype=torch.uint8)
parts = list(own[: 2801 * size].split([2801 - rank for rank in range(size)] + [size * (size - 1) // 2]))[:size]
values = torch.randn(3, 5001)
columns = slices(values.shape[1], size, Int8.block)
low, high = columns[world.rank]


def by_int8() -> Tensor:
    """Gather slices of ``values`` as int8; the messages differ in length, and end at odd bytes."""
    lengths = [Int8().size(3, stop - start) for start, stop in columns]
    gathered = torch.empty_like(values)
    message = Int8().encode(values[:, low:high].clone())
    unpack(Int8(), begin_gather(world, message, lengths, overlap=True).wait(), columns, gathered)
    return gathered


def all_ways() -> list[Tensor]:
    gathered = begin_gather(world, own, counts, overlap=True).wait()
    return [*gathered, *exchanged(world, parts), by_int8(), summed(world, values.clone())]


before = all_ways()
rows = torch.from_numpy(world.all_gather(values.numpy().ravel(), [values.numel()] * size)).view(size, 3, -1)
assert torch.equal(before[-1], torch.from_numpy(in_order(rows.numpy())))
step = rows.abs().amax() / 127
assert all(bool((before[-2][:, a:b] - rows[rank][:, a:b]).abs().max() <= step) for rank, (a, b) in enumerate(columns))
assert (seen["sums"], seen["host"] > 3) == (0, True)
torch_device.BACKENDS["cpu"] = "gloo"
world._on_device.clear()
seen["host"], moved = 0, world.traffic.received
after = all_ways()
assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
assert (seen["sums"] >= 3, seen["host"]) == (True, 0)
assert world.traffic.received - moved >= sum(counts) - counts[world.rank] + values.nbytes
seen["sums"] = 0
if os.environ.get("TRAIN_ON_DEVICE"):
    atexit.register(lambda: sys.stdout.write(f"long sums {seen['sums'] > 0}, long copies {seen['host']}\n"))
else:
    del torch_device.BACKENDS["cpu"]
    world._on_device.clear()
