"""Runs on every rank: two generations of each published network on real images with every distribution.

mpiexec -n 2 python networks_program.py DATA
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.configs import composed

from neuro_cli.fabric.mpi import mpi_world
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

DATA = Path(sys.argv[1])
MNIST = ("task=mnist", f"task.root={DATA}")
CIFAR = ("task=image_folder", f"task.root={DATA / 'cifar10_subset'}")
NETWORKS = {"MNIST_3M": MNIST, "CIF_900K": CIFAR, "CIF_8M": CIFAR}
DISTRIBUTIONS = ("replicated", "data_parallel", "semi_updates", "chromosome_updates")

world = mpi_world()
for network, task in NETWORKS.items():
    for distribution in DISTRIBUTIONS:
        config = composed(f"model={network}", *task, f"distribution={distribution}", "population=6", "batch_size=32", "threads=1")
        parts = build(Options(config), world)
        before, begun = parts.algo.centre.clone(), time.perf_counter()
        sent = world.traffic.sent
        for generation in range(2):
            report = parts.distribution.step(generation)
            assert np.isfinite(report.fitness_mean)
        centre = parts.algo.centre.numpy()
        same = world.all_gather(centre, [centre.size] * world.size).reshape(world.size, -1)
        assert (same == same[0]).all(), "the ranks differ"
        assert not np.array_equal(centre, before.numpy()), "the centre stood still"
        if world.rank == 0:
            seconds = (time.perf_counter() - begun) / 2
            print(f"ran {network} {distribution}: {seconds:.2f} s a generation", flush=True)
