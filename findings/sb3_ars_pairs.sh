#!/usr/bin/env bash
# The two sides of a direction of sb3-contrib's ARS play different episodes
#
# Version: sb3-contrib 2.9.2, stable-baselines3 2.9.2, gymnasium 1.4.0, torch 2.14.1
# Belief: ARS compares a perturbation with its mirror image on the same episodes, as common random numbers ask for.
# Seen: No reset has a seed: every candidate starts where the environment's generator stands, so that all starts of a
#   generation differ. A generation of 8 directions plays 16 episodes before the limit of steps is looked at: 1,000 steps
#   asked for, 3,200 made.
# Means: The difference of a pair holds the luck of two starts, so a comparison with a library that shares seeds compares
#   noise, at other numbers of steps. Seed the resets by a wrapper.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet sb3-contrib==2.9.2 stable-baselines3==2.9.2 gymnasium==1.4.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import gymnasium
from sb3_contrib import ARS


class Starts(gymnasium.Wrapper):
    seen = []

    def reset(self, **arguments):
        observation, info = self.env.reset(**arguments)
        self.seen.append(tuple(observation.round(4).tolist()))
        return observation, info


learner = ARS("LinearPolicy", Starts(gymnasium.make("Pendulum-v1")), n_delta=8, seed=0)
learner.learn(1000)
candidates = Starts.seen[:16]
print(f"starts of the 16 candidates of a generation: {len(set(candidates))} different ones")
print(f"steps asked for 1000, made {learner.num_timesteps}")
raise SystemExit((len(set(candidates)), learner.num_timesteps) != (16, 3200))
EOF
