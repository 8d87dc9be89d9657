"""Runs on every rank: three generations of some algorithms with some distributions; rank 0 saves the centres.

mpiexec -n 3 python equality_program.py FOLDER openai_es,snes replicated,chromosome_updates-int8
"""

import sys
from copy import deepcopy
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from configs import SAMPLERS, composed, sampler_of

from neuro_cli.distribution import chromosome_updates
from neuro_cli.fabric.mpi import mpi_world
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

POPULATION, GENERATIONS = 10, 3
COMMON = ("population=10", "batch_size=24", "threads=1", f"generations={GENERATIONS}", "model=MNIST_10K")
ALGORITHMS = {
    "openai_es": ("algo=openai_es", "sampler=antithetic", "algo.weight_decay=0.01"),
    "iid": ("algo=openai_es", "sampler=iid", "algo.shaping=z_score"),
    "snes": ("algo=snes", "sampler=iid"),
    "genetic": ("algo=genetic", "sampler=iid", "algo.parents=3"),
    "pgpe": ("algo=pgpe",),
    "ars": ("algo=ars", "algo.top=3"),
    "episodes": (
        "task=lunar_lander",
        "task.id=CartPole-v1",
        "task.episodes=5",
        "task.max_steps=40",
        "task.environments=7",
        "model=mlp_policy",
        "model.hidden=[7]",
        "algo=pgpe",
    ),
    "accuracy": ("algo=openai_es", "task.fitness=accuracy"),
    "per_example": ("algo=openai_es", "layout=per_example", "batch_size=25"),
    "sign_flip": ("layout=per_example", "batch_size=25", "sampler=sign_flip", "algo.shaping=pair_z_score"),
    "permutation": ("sampler=permutation", "sampler.sparsity=0.5"),
    "low_rank": ("layout=per_example", "batch_size=25", "sampler=low_rank", "sampler.rank=2"),
    "tiny": ("model._target_=tiny_nets.Tiny",),  # fewer blocks of int8 than ranks
    "noise_table": ("sampler=noise_table", "sampler.size=100000", "algo=snes"),
}
ALGORITHMS |= {name: sampler_of(name) for name in SAMPLERS if name not in ALGORITHMS}
# settings that follow the name of a method
SETTINGS = {
    "bfloat16": "distribution.wire=bfloat16",
    "int8": "distribution.wire=int8",
    "overlap": "distribution.overlap=true",
}


def settings_of(distribution: str) -> list[str]:
    """The overrides that a name such as ``chromosome_updates-int8-overlap`` stands for."""
    method, *names = distribution.split("-")
    return [f"distribution={method}", *(SETTINGS[name] for name in names)]


def main() -> None:
    world, folder = mpi_world(), Path(sys.argv[1])
    chromosome_updates.PIECE = 4096  # several pieces of a small network
    # composing a config takes longer than training on it: each algorithm and each distribution once
    distributions = {name: composed(*settings_of(name))["distribution"] for name in sys.argv[3].split(",")}
    for algorithm in sys.argv[2].split(","):
        overrides = ALGORITHMS[algorithm]
        base = composed(*COMMON, *overrides)
        for distribution, chosen in distributions.items():
            if distribution == "data_parallel" and "layout=per_example" in overrides:
                continue
            parts = build(Options({**deepcopy(base), "distribution": chosen}), world)
            before = world.traffic.sent
            for generation in range(GENERATIONS):
                parts.distribution.step(generation)
            sent = (world.traffic.sent - before) // GENERATIONS
            centre = parts.algo.centre.numpy()
            same = world.all_gather(centre, [centre.size] * world.size).reshape(world.size, -1)
            assert (same == same[0]).all(), f"{algorithm} {distribution}: the ranks differ"
            if world.rank == 0:
                np.save(folder / f"{algorithm}-{distribution}-{world.size}.npy", centre)
                (folder / f"{algorithm}-{distribution}-{world.size}.sent").write_text(str(sent))
            parts.threads.close()


main()
