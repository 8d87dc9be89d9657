"""Worker of ``neuro bench growth``: the ranks of a world time generations of one network.

mpiexec -n N python -m neuro_cli.bench.workers.growth PLAN RESULTS
"""

import time
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.bench.world import work_in_world
from neuro_cli.fabric.base import World
from neuro_cli.library.evolution import Evolution
from neuro_cli.run_folder.summary import peak_memory_bytes

WARM = 3.0  # seconds of generations before: loops compile, and small networks are watched more closely in their first sixteen


def network(sizes: list[int]) -> nn.Sequential:
    """Return an MLP of these widths; its weights are drawn once, where they lie."""
    with torch.device("meta"):
        layers = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)]
    for layer in layers:
        layer.to_empty(device="cpu").reset_parameters()
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))[:-1]


def negative_loss(member: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(member(inputs), targets, reduction="none")


def measure(plan: dict[str, Any], world: World) -> dict[str, Any]:
    """Return the seconds of each generation, and the peak memory of the largest rank above its imports, in bytes."""
    torch.manual_seed(plan["seed"])
    inputs, targets = torch.randn(plan["examples"], plan["sizes"][0]), torch.randint(0, plan["sizes"][-1], (plan["examples"],))
    imports, seconds = peak_memory_bytes(), []
    module = network(plan["sizes"])
    parameters = sum(parameter.numel() for parameter in module.parameters())
    evolution = Evolution(
        module, population=plan["population"], sampler=plan["sampler"], sigma=0.01, lr=0.01,
        optimizer=torch.optim.SGD, seed=plan["seed"], threads=plan["threads"], world=world,
    )  # fmt: skip
    with evolution:
        warm = time.perf_counter() + WARM
        evolution.step(negative_loss, inputs, targets)
        while world.any(time.perf_counter() < warm):
            evolution.step(negative_loss, inputs, targets)
        for _ in range(plan["repeats"]):
            world.any(False)  # ranks begin together
            begun = time.perf_counter()
            evolution.step(negative_loss, inputs, targets)
            world.any(False)
            seconds.append(time.perf_counter() - begun)
        memory = world.all_gather(np.array([float(peak_memory_bytes() - imports)]), [1] * world.size).max()
        return {"seconds": seconds, "memory_bytes": float(memory), "parameters": parameters}


if __name__ == "__main__":
    work_in_world(measure)
