"""The first ranks of an MPI world as a world of their own: one start of processes serves worlds of several sizes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from neuro_cli.fabric.mpi import mpi_world


@contextmanager
def first_ranks(size: int) -> Iterator[bool]:
    """Whether this rank is one of the first ``size``, meanwhile the whole of ``mpi_world()``; the others wait, without work."""
    world = mpi_world()
    whole, before = world._comm, (world._comm, world._node, world.rank, world.size, world.local_size, world.local_rank)
    takes_part = world.rank < size
    part = whole.Split(int(takes_part), world.rank)
    world._comm, world._node = part, part
    world.rank, world.size, world.local_size, world.local_rank = part.rank, part.size, part.size, part.rank
    try:
        yield takes_part
        done = whole.Ibarrier()
        while not done.Test():
            time.sleep(0.01)
    finally:
        part.Free()
        world._comm, world._node, world.rank, world.size, world.local_size, world.local_rank = before


@contextmanager
def machines_of_two() -> Iterator[None]:
    """Context in which each two ranks that follow each other take themselves for those of a machine; the last may be alone."""
    world = mpi_world()
    before = world._node, world.local_size, world.local_rank
    node = world._comm.Split(world.rank // 2, world.rank)
    world._node, world.local_size, world.local_rank = node, node.size, node.rank
    try:
        yield
    finally:
        node.Free()
        world._node, world.local_size, world.local_rank = before
