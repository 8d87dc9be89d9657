"""The first ranks of an MPI world as a world of their own: one start of processes serves worlds of several sizes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from neuro_cli.fabric.mpi import MpiWorld, mpi_world


@contextmanager
def meeting_on(world: MpiWorld, node: Any) -> Iterator[None]:
    """Let ``world`` take the ranks of ``node`` for all that are on this machine."""
    before = world._node, world.local_size, world.local_rank
    world._node, world.local_size, world.local_rank = node, node.size, node.rank
    try:
        yield
    finally:
        world._node, world.local_size, world.local_rank = before


@contextmanager
def first_ranks(size: int) -> Iterator[bool]:
    """Let the first ``size`` ranks be all of ``mpi_world()``; yield whether this rank is one of them. The others wait."""
    world = mpi_world()
    before = world._comm, world.rank, world.size
    everyone = world._comm
    takes_part = world.rank < size
    part = everyone.Split(int(takes_part), world.rank)
    world._comm, world.rank, world.size = part, part.rank, part.size
    try:
        with meeting_on(world, part):
            yield takes_part
            done = everyone.Ibarrier()
            while not done.Test():
                time.sleep(0.01)
    finally:
        part.Free()
        world._comm, world.rank, world.size = before


@contextmanager
def machines_of_two() -> Iterator[None]:
    """Let each two neighbouring ranks take themselves for all ranks of a machine; the last may be alone."""
    world = mpi_world()
    node = world._comm.Split(world.rank // 2, world.rank)
    try:
        with meeting_on(world, node):
            yield
    finally:
        node.Free()
