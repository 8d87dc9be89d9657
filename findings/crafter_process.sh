#!/usr/bin/env bash
# A Crafter episode depends on Python's string hashes and on numpy's global generator
#
# Version: crafter 1.8.3, numpy 2.4.6
# Belief: crafter.Env(seed=0) is the same game in every process: the seed decides world, creatures and pictures.
# Seen: The first picture is the same. Creatures stand in sets, whose order Python's string hashing decides by process: with
#   other values of PYTHONHASHSEED a game of the same actions differs within 100 steps, with the same value it does not.
#   Noise in the pictures is drawn from numpy's global generator.
# Means: Ranks, peers and resumed runs play other episodes of one seed, with no word, as each process has other hashes.
#   Start all with PYTHONHASHSEED=0, and seed np.random at each reset.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet crafter==1.8.3 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import os
import subprocess
import sys

GAME = """
import sys
import crafter
import numpy as np
np.random.seed(int(sys.argv[1]))
env = crafter.Env(seed=0)
print(int(env.reset().sum()), *(int(env.step(number % 17)[0].sum()) for number in range(150)))
"""


def game(hashes, shared):
    environment = {**os.environ, "PYTHONHASHSEED": str(hashes)}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", GAME, str(shared)], env=environment, capture_output=True, check=True).stdout.split()


def first(one, other):
    return next((step for step, (a, b) in enumerate(zip(one, other)) if a != b), None)


plain = game(0, 0)
again, hashed, shared = (first(plain, game(*given)) for given in ((0, 0), (1, 0), (0, 1)))
print(f"first step that differs: the same process settings {again}, other hashes {hashed}, other state of np.random {shared}")
raise SystemExit(not (again is None and hashed and shared))
EOF
