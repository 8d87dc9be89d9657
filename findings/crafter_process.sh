#!/usr/bin/env bash
# Crafter plays another game of one seed and the same actions in each process
#
# Version: crafter 1.8.3, numpy 2.4.6
# Belief: crafter.Env(seed=0) is the same game in every process: the seed decides world, creatures and pictures.
# Seen: Creatures of an area stand in a set, whose order comes from their addresses in memory, and the one that vanishes is
#   drawn by its place there. Of eight processes with the same hash seed, the same state of numpy and the same 300 actions
#   several see other pictures, the first of them within the first 250 steps; the reset is the same in all.
# Means: Ranks, peers and resumed runs play other episodes of one seed, and a short trial does not see it. Score by many
#   episodes, and expect no equal bits.
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
import crafter
import numpy as np
np.random.seed(0)
env = crafter.Env(seed=0)
print(int(env.reset().sum()), *(int(env.step(number % 17)[0].sum()) for number in range(300)))
"""
environment = {**os.environ, "PYTHONHASHSEED": "0"}
run = [sys.executable, "-W", "ignore", "-c", GAME]
games = [tuple(subprocess.run(run, env=environment, capture_output=True, check=True).stdout.split()) for _ in range(8)]
first = [next((step for step, (a, b) in enumerate(zip(games[0], game)) if a != b), None) for game in games]
print(f"games of one seed in eight processes: {len(set(games))} different; first step that differs from the first one's: {first}")
raise SystemExit(not (len(set(games)) > 1 and len({game[0] for game in games}) == 1))
EOF
