#!/usr/bin/env bash
# In RDKit the conformers of seed 2 are every second one of seed 1, and those of seed 0 are one conformer
#
# Version: rdkit 2026.9.1, numpy 2.4.6
# Belief: Runs with seeds 0, 1, 2 and 3 embed independent conformers, and ten conformers of one seed are ten.
# Seen: Conformer i of a seed is drawn with (i + 1) * seed: of ten conformers seed 2 shares five with seed 1, and seed 3 three. With seed
#   0 all ten have the same coordinates to the bit, those of the first one of seed 1. With `enableSequentialRandomSeeds` seeds 1 and 2
#   share all but one. Threads change nothing.
# Means: Repeats of a docking or shape fitness with neighbouring seeds share their noise, and a run of seed 0 has one conformer for its
#   price of ten. Take seeds that are large primes, or numbers from a generator.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet rdkit==2026.9.1 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from rdkit import Chem, RDLogger
from rdkit.Chem import AllChem

RDLogger.DisableLog("rdApp.*")


def conformers(seed, threads=1, sequential=False):
    molecule, options = Chem.AddHs(Chem.MolFromSmiles("CC(C)Cc1ccc(cc1)C(C)C(=O)O")), AllChem.ETKDGv3()
    options.randomSeed, options.numThreads, options.enableSequentialRandomSeeds = seed, threads, sequential
    AllChem.EmbedMultipleConfs(molecule, 10, options)
    return [conformer.GetPositions() for conformer in molecule.GetConformers()]


def shared(left, right):
    return [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if np.array_equal(one, other)]


one, zero = conformers(1), conformers(0)
print("two threads, same places:", shared(one, conformers(1, threads=2)) == [(i, i) for i in range(10)])
two, three = shared(one, conformers(2)), shared(one, conformers(3))
print("places of seed 1 that seed 2 and seed 3 have:", two, three)
print("seed 0, equal to its first and to the first of seed 1:", len(shared(zero[:1], zero)), len(shared(one[:1], zero)))
neighbours = len(shared(conformers(1, sequential=True), conformers(2, sequential=True)))
print("shared by sequential seeds 1 and 2:", neighbours)
holds = two == [(1, 0), (3, 1), (5, 2), (7, 3), (9, 4)] and three == [(2, 0), (5, 1), (8, 2)]
raise SystemExit(not (holds and len(shared(zero[:1], zero)) == 10 and len(shared(one[:1], zero)) == 10 and neighbours == 9))
PROGRAM
