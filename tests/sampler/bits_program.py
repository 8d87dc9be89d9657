"""SHA-256 of updates that are functions of seeds and coefficients alone: python bits_program.py

Run it with other instructions (ONEDNN_MAX_CPU_ISA, MKL_ENABLE_INSTRUCTIONS, MKL_CBWR, NUMBA_CPU_NAME, ATEN_CPU_CAPABILITY) and
other OMP_NUM_THREADS: each line is the same.
"""

import hashlib

import numpy as np
import torch
from torch import nn

from neuro_cli.core import noise as addressed
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.sampler.base import Sampler
from neuro_cli.sampler.iid import Iid
from neuro_cli.sampler.low_rank import LowRank
from neuro_cli.sampler.noise_table import NoiseTable
from neuro_cli.sampler.permutation import Permutation
from neuro_cli.sampler.sign_flip import SignFlip

MEMBERS = 700  # 350 directions: more terms than a BLAS or a tile takes at once
MODULE = nn.Sequential(nn.Linear(37, 70), nn.Conv2d(6, 9, 3), nn.Linear(130, 5, bias=False), nn.LayerNorm(70))


def samplers() -> dict[str, Sampler]:
    """Return a sampler of every kind of sum by its name."""
    return {
        "iid": Iid(antithetic=True),
        "noise_table": NoiseTable(2**15),
        "low_rank": LowRank(1),
        "low_rank_3": LowRank(3),
        "sign_flip": SignFlip(),
        "sign_flip_outputs": SignFlip("outputs", 64),
        "permutation": Permutation(),
        "permutation_inputs": Permutation("inputs", 0.5),
        "permutation_both": Permutation("both", 0.3),
    }


def moved(sampler: Sampler, threads: int) -> str:
    """Return the SHA-256 of parameters after two updates, each from the noise and from its squares."""
    layout = ParameterLayout(MODULE)
    sampler.bind(Noise(3, layout.size, torch.device("cpu"), Threads(threads)), MEMBERS, layout)
    centre = torch.zeros(layout.size)
    for generation in range(2):
        weights = np.random.default_rng(generation).integers(-(2**20), 2**20, (2, MEMBERS)) / 2**20
        for sums in sampler.combine(weights, (1, 2), generation, range(MEMBERS), 0, layout.size):
            centre += sums
    return hashlib.sha256(centre.numpy().tobytes()).hexdigest()


def main() -> None:
    addressed.tier.few = 0  # compiled loops, as in a run
    for name, sampler in samplers().items():
        print(name, moved(sampler, 2), flush=True)


if __name__ == "__main__":
    main()
