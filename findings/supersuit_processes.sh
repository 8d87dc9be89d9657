#!/usr/bin/env bash
# With SuperSuit's `num_cpus` copies of an environment play the same episode, and which ones depends on the number of processes
#
# Version: supersuit 3.11.0, pettingzoo 1.27.0, gymnasium 1.4.0, numpy 2.4.6
# Belief: `concat_vec_envs_v1` gives each copy a seed of its own, and processes are a matter of speed.
# Seen: `reset(seed=1)` of four copies gives them the seeds 1, 2, 3 and 4 in one process, and 1, 2, 2 and 3 in two: each
#   process adds its own number and the place within it. Three copies in two processes have the seeds 1, 2 and 2, in three
#   1, 2 and 3.
# Means: Returns of several copies are not independent, and a comparison depends on the number of cores. Seed each copy by itself, or
#   leave `num_cpus` at 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet supersuit==3.11.0 pettingzoo==1.27.0 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import gymnasium
import numpy as np
import supersuit
from pettingzoo import ParallelEnv


class Seen(ParallelEnv):
    """Two agents who see the seed of the reset."""

    metadata = {"name": "seen", "is_parallelizable": True}
    possible_agents = ["first", "second"]
    render_mode = None

    def observation_space(self, agent):
        return gymnasium.spaces.Box(-1, 100, (1,), np.float32)

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.seen = self.possible_agents[:], np.float32([-1 if seed is None else seed])
        return {agent: self.seen for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        same = {agent: False for agent in self.agents}
        return {agent: self.seen for agent in self.agents}, dict.fromkeys(self.agents, 0.0), same, dict(same), {a: {} for a in self.agents}


if __name__ == "__main__":
    seeds = {}
    for copies in (3, 4, 6):
        for processes in (1, 2, 3):
            single = supersuit.pettingzoo_env_to_vec_env_v1(Seen())
            vector = supersuit.concat_vec_envs_v1(single, copies, num_cpus=processes, base_class="gymnasium")
            seen = vector.reset(seed=1)[0][:, 0].astype(int).tolist()
            seeds[copies, processes] = seen[::2]
            print(f"{copies} copies, {processes} processes, seeds {seeds[copies, processes]}", flush=True)
            vector.close()
    holds = all(seeds[copies, 1] == list(range(1, copies + 1)) for copies in (3, 4, 6))
    holds &= seeds[4, 2] == [1, 2, 2, 3] and seeds[3, 2] == [1, 2, 2]
    raise SystemExit(not holds)
PROGRAM
timeout 120 "$folder/venv/bin/python" -W ignore program.py
