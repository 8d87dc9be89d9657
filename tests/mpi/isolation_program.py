"""Two generations of networks that keep state, draw random numbers or write to their input: the centre of each as a digest.

Runs on every rank: mpiexec -n 3 python isolation_program.py FILE. The file gets a list of the digests for 1, 2 and 3 ranks.
"""

import hashlib
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

import neuro_cli as neuro
from neuro_cli.fabric.mpi import mpi_world

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "scoring"))
import test_isolation as networks
from support.part_of_world import first_ranks


def digests() -> list[str]:
    """The digest of each network's centre."""
    centres = []
    for kind in (networks.Membrane, networks.CachedWeight, networks.InPlace, networks.Dropout, networks.NumpyNoise):
        torch.manual_seed(3)
        es = neuro.Evolution(kind(), population=10, sigma=0.3, seed=4, threads=1)
        for _ in range(2):
            es.step(lambda member: -F.cross_entropy(member(networks.INPUTS.clone()), networks.TARGETS))
            es.step(lambda member, x, y: -F.cross_entropy(member(x), y, reduction="none"), networks.INPUTS, networks.TARGETS)
        centres.append(hashlib.sha256(es.centre.numpy().tobytes()).hexdigest())
    return centres


on_ranks = []
for ranks in (1, 2, 3):
    with first_ranks(ranks) as takes_part:
        if takes_part:
            on_ranks.append(digests())
if mpi_world().rank == 0:
    Path(sys.argv[1]).write_text(json.dumps(on_ranks))
