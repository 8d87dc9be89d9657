#!/usr/bin/env bash
# In Meta-World the seed of a reset decides nothing: the goal is that of the constructor's seed and of the number of resets
#
# Version: metaworld 3.1.1, gymnasium 1.4.0, mujoco 3.3.0, numpy 2.4.6
# Belief: reset(seed=1) begins the same episode each time, as gymnasium's interface says, and seeds 1 and 2 begin other ones.
# Seen: In Meta-World/MT1 two resets with one seed have other goals, and first resets with seeds 1 and 7 have the same. Goals
#   follow the seed that gym.make was given, in the order of resets.
# Means: Members that are scored one after the other in one environment have other goals each, and a pair with one seed has two
#   tasks. Make an environment for each episode, and give the seed to gym.make.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet metaworld==3.1.1 gymnasium==1.4.0 mujoco==3.3.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gymnasium
import metaworld

assert metaworld.__name__


def goals(made, *seeds):
    environment = gymnasium.make("Meta-World/MT1", env_name="reach-v3", seed=made)
    return [environment.reset(seed=seed)[0][-3:].round(6).tolist() for seed in seeds]


first, second = goals(0, 1, 1)
other, third = goals(0, 7, 7)
elsewhere = goals(5, 1)[0]
print("goals of two resets with seed 1:", first, second, "with seed 7:", other, third, "made with another seed:", elsewhere)
raise SystemExit(not (first != second and [first, second] == [other, third] and elsewhere != first))
PROGRAM
