#!/usr/bin/env bash
# Vector environments of seeds 0 and 1 share seven of eight episodes, and two modes share none
#
# Version: gymnasium 1.4.0
# Belief: reset(seed=s) gives each s its own eight episodes, the same in every vectorization mode.
# Seen: Sub-environment i has the seed s + i, so the batches of s and s + 1 overlap in all but one. CartPole's default mode
#   draws all states from one generator, coordinate by coordinate: it has no state in common with 'sync'.
# Means: Evaluation seeds s, s + 1, s + 2 are no independent samples: standard errors come out too small. Space seeds by the
#   number of environments, and name the mode with a result.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnasium==1.4.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import gymnasium


def states(name, seed, mode):
    options = {} if mode is None else {"vectorization_mode": mode}
    return {tuple(row) for row in gymnasium.make_vec(name, num_envs=8, **options).reset(seed=seed)[0].tolist()}


shared = len(states("Pendulum-v1", 0, "sync") & states("Pendulum-v1", 1, "sync"))
modes = len(states("CartPole-v1", 0, "sync") & states("CartPole-v1", 0, None))
print(f"Pendulum, sync, seeds 0 and 1: {shared} of 8 first states are the same")
print(f"CartPole, seed 0, sync and default mode: {modes} of 8 are the same")
raise SystemExit(shared != 7 or modes != 0)
EOF
