"""Measures the network between two ranks with plain messages: one line of JSON from rank 0."""

import json
import socket
import sys
import time

import numpy as np
from mpi4py import MPI

from neuro_cli.fabric.base import interface_bytes

world = MPI.COMM_WORLD
size = int(sys.argv[1])
hosts = world.gather(socket.gethostname())
before = interface_bytes("eth0")
one, other = np.zeros(1, np.float32), np.zeros(1, np.float32)
trips = []
for _ in range(50):
    start = time.perf_counter()
    if world.rank == 0:
        world.Send(one, 1)
        world.Recv(other, 1)
    elif world.rank == 1:
        world.Recv(other, 0)
        world.Send(one, 0)
    trips.append(time.perf_counter() - start)
values = np.full(size // 4, world.rank, np.float32)
got = np.empty(world.size * values.size, np.float32)
start = time.perf_counter()  # common start: no rank sends before rank 0 reaches the first barrier
for _ in range(5):
    world.Barrier()
    world.Allgather(values, got)
gather = (time.perf_counter() - start) / 5
assert (got.reshape(world.size, -1) == np.arange(world.size)[:, None]).all()
world.Barrier()  # its message follows those still under way, ...
world.Barrier()  # ... and this one comes when the others have had it
after = interface_bytes("eth0")
if world.rank == 0:
    print(json.dumps({"hosts": hosts, "trip": min(trips), "gather": gather,
                      "sent": after[0] - before[0], "received": after[1] - before[1]}))  # fmt: skip
