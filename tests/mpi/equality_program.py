"""Runs on every rank: three generations of some algorithms with some distributions; rank 0 saves the centres.

mpiexec -n 3 python equality_program.py FOLDER 1:snes:local 3:openai_es,snes:replicated,chromosome_updates-int8

The number before a colon: by so many of the ranks, which are a world of their own.
"""

import json
import sys
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from support.configs import SAMPLERS, composed, sampler_of
from support.part_of_world import first_ranks, machines_of_two

from neuro_cli.algo.centre import optimizer as optimized_centre
from neuro_cli.distribution import chromosome_updates
from neuro_cli.fabric.mpi import MpiWorld, mpi_world
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

POPULATION, GENERATIONS = 10, 3
COMMON = ("population=10", "batch_size=24", "threads=1", f"generations={GENERATIONS}", "model=MNIST_10K")
ACTIVATION = ("sampler=activation", "layout=per_example", "sampler.draws=3", "batch_size=5")
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
    "activation": (*ACTIVATION, "sampler.control_variates=false"),
    "control_variates": ACTIVATION,
    "tiny": ("model._target_=tiny_nets.Tiny",),  # fewer blocks of int8 than ranks
    "weights": ("algo=openai_es", "sampler=low_rank", "weights=bfloat16", "precision=bfloat16"),
    "noise_table": ("sampler=noise_table", "sampler.size=100000", "algo=snes"),
}
ALGORITHMS |= {name: sampler_of(name) for name in SAMPLERS if name not in ALGORITHMS}
# settings that follow the name of a method
SETTINGS = {
    "bfloat16": "distribution.wire=bfloat16",
    "int8": "distribution.wire=int8",
    "overlap": "distribution.overlap=true",
    "machines": "distribution.share_node=true",  # two ranks on each
}


def settings_of(distribution: str) -> list[str]:
    """The overrides that a name such as ``chromosome_updates-int8-overlap`` stands for."""
    method, *names = distribution.split("-")
    return [f"distribution={method}", *(SETTINGS[name] for name in names)]


def handed_out(world: MpiWorld, overrides: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """The composed configs, by name: composing one takes longer than training on it, so rank 0 does it for all."""
    made = {name: composed(*words) for name, words in overrides.items()} if world.rank == 0 else {}
    return json.loads(world.broadcast(json.dumps(made).encode()))


def saved(world: MpiWorld, folder: Path, name: str, config: dict[str, Any]) -> None:
    """Train and save the centre, and the bytes that rank 0 sent in a generation."""
    parts = build(Options(config), world)
    before = world.traffic.sent
    for generation in range(GENERATIONS):
        parts.distribution.step(generation)
    sent = (world.traffic.sent - before) // GENERATIONS
    centre = parts.algo.centre.float().numpy()
    same = world.all_gather(centre, [centre.size] * world.size).reshape(world.size, -1)
    assert (same == same[0]).all(), f"{name}: the ranks differ"
    if world.rank == 0:
        np.save(folder / f"{name}-{world.size}.npy", centre)
        (folder / f"{name}-{world.size}.sent").write_text(str(sent))
    parts.threads.close()


def main() -> None:
    world, folder = mpi_world(), Path(sys.argv[1])
    work = []
    for word in sys.argv[2:]:
        size, algorithms, distributions = word.split(":")
        work += [(int(size), algorithm, name) for algorithm in algorithms.split(",") for name in distributions.split(",")]
    bases = handed_out(world, {algorithm: [*COMMON, *ALGORITHMS[algorithm]] for _, algorithm, _ in work})
    methods = handed_out(world, {name: settings_of(name) for _, _, name in work})
    for size in sorted({size for size, _, _ in work}):
        with first_ranks(size) as takes_part:
            for its, algorithm, name in work:
                refused = name == "data_parallel" and "layout=per_example" in ALGORITHMS[algorithm]
                if takes_part and its == size and not refused:
                    chosen = methods[name]["distribution"]
                    with machines_of_two() if "machines" in name and size > 1 else nullcontext():
                        saved(world, folder, f"{algorithm}-{name}", {**deepcopy(bases[algorithm]), "distribution": chosen})


usual = chromosome_updates.PIECE, optimized_centre.LARGE, optimized_centre.ROWS, optimized_centre._length
# several pieces of a small network, several spans of its parameters
chromosome_updates.PIECE, optimized_centre.LARGE, optimized_centre.ROWS, optimized_centre._length = 4096, 0, 8, lambda size: 3000
try:
    main()
finally:  # the world serves other tests too
    chromosome_updates.PIECE, optimized_centre.LARGE, optimized_centre.ROWS, optimized_centre._length = usual
