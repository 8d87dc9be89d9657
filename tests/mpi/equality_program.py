"""Runs on every rank: five generations of some algorithms with some distributions; rank 0 saves the centres.

mpiexec -n 3 python equality_program.py FOLDER openai_es,snes replicated,semi_updates
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from configs import composed

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
    "noise_table": ("sampler=noise_table", "sampler.size=100000", "algo=snes"),
}


def main() -> None:
    world, folder = mpi_world(), Path(sys.argv[1])
    for algorithm in sys.argv[2].split(","):
        overrides = ALGORITHMS[algorithm]
        for distribution in sys.argv[3].split(","):
            if distribution == "data_parallel" and "layout=per_example" in overrides:
                continue
            config = composed(*COMMON, *overrides, f"distribution={distribution}")
            parts = build(config, world)
            for generation in range(GENERATIONS):
                parts.distribution.step(generation)
            centre = parts.algo.centre.numpy()
            same = world.all_gather(centre, [centre.size] * world.size).reshape(world.size, -1)
            assert (same == same[0]).all(), f"{algorithm} {distribution}: the ranks differ"
            if world.rank == 0:
                np.save(folder / f"{algorithm}-{distribution}-{world.size}.npy", centre)
            parts.threads.close()


main()
