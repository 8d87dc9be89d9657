"""Runs on every rank: collectives, their byte counts, and agreement on errors."""

import os
import time

import numpy as np
import pytest

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import SHORT_NAP, MpiWorld
from neuro_cli.fabric.start import launched_world
from neuro_cli.runner.consensus import AgreedError, collectively

world = launched_world()
rank, size = world.rank, world.size
assert (world.local_rank, world.local_size) == (rank, size)  # all on this machine, in the order of the ranks


def moved(work) -> tuple[int, int]:
    sent, received = world.traffic.sent, world.traffic.received
    work()
    return world.traffic.sent - sent, world.traffic.received - received


# blocks of unequal length, one of them empty
counts = [3 * j for j in range(size)]
own = np.full(counts[rank], rank, np.float32)
expected = np.concatenate([np.full(count, j, np.float32) for j, count in enumerate(counts)])
assert np.array_equal(world.all_gather(own, counts), expected)
assert moved(lambda: world.all_gather(own, counts)) == (own.nbytes, expected.nbytes - own.nbytes)

# blocks of nearly the same length
counts = [100 + (j % 2) for j in range(size)]
own = np.full(counts[rank], rank, np.float32)
expected = np.concatenate([np.full(count, j, np.float32) for j, count in enumerate(counts)])
assert np.array_equal(world.all_gather(own, counts), expected)
assert moved(lambda: world.all_gather(own, counts)) == (own.nbytes, expected.nbytes - own.nbytes)

# the same, begun early: two under way at once, the later one waited for first
first, second = world.start_all_gather(own, counts), world.start_all_gather(-own, counts)
first.test()
assert np.array_equal(second.wait(), -expected)
assert np.array_equal(first.wait(), expected)
assert first.test()
assert moved(lambda: world.start_all_gather(own, counts).wait()) == (own.nbytes, expected.nbytes - own.nbytes)

# among the ranks of a machine, no bytes on the wire
assert moved(lambda: np.testing.assert_array_equal(world.all_gather_on_node(own, counts), expected)) == (0, 0)

gathered = world.gather(own, counts)
assert (gathered is None) == (rank > 0)
assert gathered is None or np.array_equal(gathered, expected)
expected_moved = (own.nbytes, 0) if rank else (0, expected.nbytes - own.nbytes)
assert moved(lambda: world.gather(own, counts)) == expected_moved

# block j of rank i is j copies of the number 10 i + j; that of rank 0 is empty
blocks = [np.full(j, 10 * rank + j, np.uint8) for j in range(size)]
for i, block in enumerate(world.all_to_all(blocks)):
    assert block.tolist() == [10 * i + rank] * rank
sent = sum(range(size)) - rank
assert moved(lambda: world.all_to_all(blocks)) == (sent, (size - 1) * rank)

values = np.array([1.0, rank], np.float32)
assert moved(lambda: world.all_reduce(values)) == (8, 8)
assert values.tolist() == [size, size * (size - 1) / 2]

# a library sums by another algorithm for every size; its order is its own, but every rank has to get the same bits
for length in (1, 7, 1001, 10_007, 300_001, 1_000_001):
    summed = np.random.default_rng(rank).standard_normal(length).astype(np.float32) * np.float32(10) ** (rank - 1)
    world.all_reduce(summed)
    table = world.all_gather(summed, [length] * size).reshape(size, length)
    assert (table.view(np.int32) == table[0].view(np.int32)).all(), f"the ranks' sums of {length} elements differ"

# the same, begun early: two under way at once, integers too
first = world.start_all_reduce(np.array([1.0, rank], np.float32))
second = world.start_all_reduce(np.array([2**60 // size, -rank], np.int64))
first.test()
assert second.wait().tolist() == [2**60 // size * size, -size * (size - 1) // 2]
assert first.wait().tolist() == [size, size * (size - 1) / 2]
assert moved(lambda: world.start_all_reduce(np.zeros(5, np.int64)).wait()) == ((40, 40) if size > 1 else (0, 0))

# a message round the ring
if size > 1:
    following, before = (rank + 1) % size, (rank - 1) % size

    def pass_on() -> None:
        if rank == 0:
            world.send(following, np.arange(3.0))
        got = world.receive(before, 3, np.dtype(np.float64))
        assert got.tolist() == [0.0 + (before if before else 0), 1.0 + before, 2.0 + before]
        if rank:
            world.send(following, got + 1)

    assert moved(pass_on) == (24, 24)

# messages longer than the largest one, here 40 bytes, are cut: the same outcome and byte counts, blocks in every order
small = MpiWorld(largest=40) if isinstance(world, MpiWorld) else world
for counts in ([31 + j % 2 for j in range(size)], [17 * j for j in range(size)], [0] * (size - 1) + [50]):
    own, total = np.arange(counts[rank], dtype=np.float32) + 100 * rank, 4 * sum(counts)
    expected = np.concatenate([np.arange(count, dtype=np.float32) + 100 * j for j, count in enumerate(counts)])
    before = small.traffic.sent, small.traffic.received
    for gathered in (small.all_gather(own, counts), small.start_all_gather(own, counts).wait(), small.gather(own, counts)):
        assert gathered is None or np.array_equal(gathered, expected)
    sent, received = small.traffic.sent - before[0], small.traffic.received - before[1]
    both = (2 * own.nbytes, 2 * (total - own.nbytes))
    alone = (own.nbytes, 0) if rank else (0, total - own.nbytes)
    assert size == 1 or (sent, received) == (both[0] + alone[0], both[1] + alone[1])
    assert np.array_equal(small.all_gather_on_node(own, counts), expected)
blocks = [np.arange(50 * j + 7, dtype=np.int64) + 1000 * rank + j for j in range(size)]
for i, block in enumerate(small.all_to_all(blocks)):
    assert np.array_equal(block, np.arange(50 * rank + 7) + 1000 * i + rank)
table = np.arange(66, dtype=np.int64).reshape(3, 22) * (rank + 1)
small.all_reduce(table)
assert np.array_equal(table, np.arange(66).reshape(3, 22) * (size * (size + 1) // 2))
assert small.start_all_reduce(np.full(99, rank)).wait().tolist() == [size * (size - 1) // 2] * 99
assert small.broadcast(bytes(range(200)) if rank == 0 else b"") == bytes(range(200))
if size > 1:
    if rank == 0:
        small.send(1, np.arange(101.0).reshape(1, 101))
    elif rank == 1:
        assert small.receive(0, 101, np.dtype(np.float64)).tolist() == list(range(101))

# ranks that wait for what rank 0 hands out leave the processor to it
if rank == 0:
    time.sleep(2.0)
used = time.process_time()
assert world.broadcast(b"hello" if rank == 0 else b"") == b"hello"
assert time.process_time() - used < 0.1

# so do those that wait for another's part, where ranks share cores; how they wait changes no bit of a sum
if size > 1:
    noise = np.random.default_rng(rank).standard_normal(100_003).astype(np.float32)
    sums = []
    for nap in (None, SHORT_NAP):
        world._nap = nap
        sums.append(noise.copy())
        world.all_reduce(sums[-1])
    assert np.array_equal(sums[0], sums[1])
    if rank == 0:
        time.sleep(1.0)
    used = time.process_time()
    world.all_reduce(np.zeros(1, np.float32))
    assert time.process_time() - used < 0.25
    world._nap = SHORT_NAP if os.environ["NEURO_SHARE_CORES"] == "1" else None
assert world.any(rank == size - 1)
assert not world.any(False)


def fail(wanted: bool, message: str) -> None:
    if wanted:
        raise UserError(message)


for failing in range(size):
    with pytest.raises(AgreedError) as caught, collectively(world):
        fail(rank == failing, f"bad input {failing}")
    assert str(caught.value) == (f"bad input {failing}" if failing == 0 else f"rank {failing}: bad input {failing}")
with collectively(world):
    pass
print("all well", flush=True)
