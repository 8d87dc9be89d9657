#!/usr/bin/env bash
# `rattle()` of ASE displaces every member by the same noise, and a second time by twice as much
#
# Version: ase 3.29.0, numpy 2.4.6
# Belief: `atoms.rattle(0.1)` is a random displacement, another one in each call, that numpy's seed decides.
# Seen: Its generator is made in each call, from seed 42. Eight copies that are rattled are one structure to the bit; rattled ten times a
#   structure has moved by ten times one displacement, not by a random walk; `numpy.random.seed` changes nothing. Langevin dynamics beside
#   it draw from numpy's global generator, which does go on.
# Means: A population that is begun by `rattle` has one member, and mutations by it are one direction. Hand it `rng=`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet ase==3.29.0 numpy==2.4.6
cd "$folder"
OMP_NUM_THREADS=1 "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
from ase.build import bulk

start = bulk("Cu", cubic=True) * (2, 2, 2)
members = [start.copy() for _ in range(8)]
for seed, member in enumerate(members):
    np.random.seed(seed)
    member.rattle(0.1)
alike = sum(np.array_equal(members[0].positions, member.positions) for member in members)
walked, drawn, rng = start.copy(), start.copy(), np.random.default_rng(0)
for _ in range(10):
    walked.rattle(0.1)
    drawn.rattle(0.1, rng=rng)
once = members[0].positions - start.positions
print("members equal to the first one, of 8:", alike)
far, right = (float((atoms.positions - start.positions).std()) for atoms in (walked, drawn))
print(f"ten times 0.1: a deviation of {far:.2f}, with a generator {right:.2f}")
raise SystemExit(not (alike == 8 and np.allclose(walked.positions - start.positions, 10 * once) and far > 0.8 and right < 0.5))
PROGRAM
