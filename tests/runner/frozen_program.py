"""Trains a small head behind 100 MB of frozen weights; prints the memory that this took, in MB. python frozen_program.py

Memory is what the process has for itself, and its part of shared memory: pages that ranks share count once for all of them.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli

X = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()


def fitness(module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(module(inputs), targets, reduction="none")


def memory() -> float:
    lines = (line.split() for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    kilobytes = {name: int(size) for name, size, _ in lines}
    return sum(kilobytes[name] for name in ("Private_Clean:", "Private_Dirty:", "Pss_Shmem:")) / 1024


def head(size: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    body = [nn.Linear(16, size), *(nn.Linear(size, size, bias=False) for _ in range(layers))]
    return nn.Sequential(*(part.requires_grad_(False) for part in body), nn.Tanh(), nn.Linear(size, 2))


def trained(module: nn.Module) -> neuro_cli.Evolution:
    evolution = neuro_cli.Evolution(module, population=8, threads=2)
    for _ in range(2):
        evolution.step(fitness, X, Y)
    return evolution


trained(head(32, 1)).close()  # loads what any training loads
before = memory()
evolution = trained(head(5120, 1))
assert evolution.state_dict()["settings"]["parameters"] == 2 * 5120 + 2
evolution.world.any(False)  # every rank has its pages
print(f"took {memory() - before:.1f} MB, peer of {evolution.world.local_size}", flush=True)
evolution.world.any(False)
