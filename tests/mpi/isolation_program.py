"""Two generations of networks that keep state, draw random numbers and write to their input: centres on any number of ranks.

mpiexec -n 3 python isolation_program.py
"""

import hashlib
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import neuro_cli as neuro

sys.path.insert(0, str(Path(__file__).parents[1] / "scoring"))
import test_isolation as networks

for kind in (networks.Membrane, networks.CachedWeight, networks.InPlace, networks.Dropout, networks.NumpyNoise):
    torch.manual_seed(3)
    es = neuro.Evolution(kind(), population=10, sigma=0.3, seed=4, threads=1)
    for _ in range(2):
        es.step(lambda member: -F.cross_entropy(member(networks.INPUTS.clone()), networks.TARGETS))
        es.step(lambda member, x, y: -F.cross_entropy(member(x), y, reduction="none"), networks.INPUTS, networks.TARGETS)
    if es.rank == 0:
        print(kind.__name__, hashlib.sha256(es.centre.numpy().tobytes()).hexdigest())
