"""Runs on every rank: five generations of each algorithm and distribution; rank 0 saves the centres.

mpiexec -n 3 python equality_program.py FOLDER
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from configs import composed

from neuro_cli.distribution import chromosome_updates
from neuro_cli.fabric.mpi import mpi_world
from neuro_cli.runner.build import build

POPULATION, GENERATIONS = 10, 5
COMMON = ("population=10", "batch_size=24", "threads=1", f"generations={GENERATIONS}", "model=MNIST_10K")
ALGORITHMS = {
    "openai_es": ("algo=openai_es", "sampler=antithetic", "algo.weight_decay=0.01"),
    "iid": ("algo=openai_es", "sampler=iid", "algo.shaping=z_score"),
    "snes": ("algo=snes", "sampler=iid"),
    "genetic": ("algo=genetic", "sampler=iid", "algo.parents=3"),
    "accuracy": ("algo=openai_es", "task.fitness=accuracy"),
    "per_example": ("algo=openai_es", "layout=per_example", "batch_size=25"),
    "sign_flip": ("layout=per_example", "batch_size=25", "sampler=sign_flip", "algo.shaping=pair_z_score"),
    "permutation": ("sampler=permutation", "sampler.sparsity=0.5"),
    "low_rank": ("layout=per_example", "batch_size=25", "sampler=low_rank", "sampler.rank=2"),
    "tiny": ("model._target_=tiny_nets.Tiny",),  # fewer blocks of int8 than ranks
    "noise_table": ("sampler=noise_table", "sampler.size=100000", "algo=snes"),
}
DISTRIBUTIONS = ("local", "replicated", "chromosome_updates", "semi_updates", "data_parallel")
# what is added to the name of a method, and its setting
WIRES = {
    "chromosome_updates-bfloat16": ("distribution.wire=bfloat16",),
    "chromosome_updates-int8": ("distribution.wire=int8",),
    "chromosome_updates-int8-overlap": ("distribution.wire=int8", "distribution.overlap=true"),
    "chromosome_updates-overlap": ("distribution.overlap=true",),
    "semi_updates-bfloat16": ("distribution.wire=bfloat16",),
    "semi_updates-int8": ("distribution.wire=int8",),
}
ROUNDED = ("snes", "tiny")  # algorithms that are run with these too


def cases() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(algorithm, distribution, overrides)"""
    for algorithm, overrides in ALGORITHMS.items():
        for distribution in DISTRIBUTIONS:
            if distribution != "data_parallel" or "layout=per_example" not in overrides:
                yield algorithm, distribution, (*overrides, f"distribution={distribution}")
        if algorithm in ROUNDED:
            for name, wire in WIRES.items():
                yield algorithm, name, (*overrides, f"distribution={name.split('-')[0]}", *wire)


def main() -> None:
    world, folder = mpi_world(), Path(sys.argv[1])
    chromosome_updates.PIECE = 4096  # several pieces of a small network
    sent: dict[str, int] = {}  # bytes a generation
    for algorithm, distribution, overrides in cases():
        if distribution != "local" or world.size == 1:
            config = composed(*COMMON, *overrides)
            parts = build(config, world)
            before = world.traffic.sent
            for generation in range(GENERATIONS):
                parts.distribution.step(generation)
            sent[f"{algorithm}-{distribution}"] = (world.traffic.sent - before) // GENERATIONS
            centre = parts.algo.centre.numpy()
            same = world.all_gather(centre, [centre.size] * world.size).reshape(world.size, -1)
            assert (same == same[0]).all(), f"{algorithm} {distribution}: the ranks differ"
            if world.rank == 0:
                np.save(folder / f"{algorithm}-{distribution}-{world.size}.npy", centre)
            parts.threads.close()
    if world.rank == 0:
        (folder / f"sent-{world.size}.json").write_text(json.dumps(sent))


main()
