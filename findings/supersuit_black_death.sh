#!/usr/bin/env bash
# Under SuperSuit's `black_death` nobody dies: all agents end one step later, terminated and truncated, in a state of zeros
#
# Version: supersuit 3.11.0, pettingzoo 1.27.0, gymnasium 1.4.0, numpy 2.4.6
# Belief: A dead agent stays with observations of zero and rewards of 0, and the flags say who died and who met the time limit.
# Seen: Of two agents one dies in step 3 and one meets the time limit in step 5. Through the wrapper neither flag is set in these
#   steps. In a sixth step, which the environment has not, both are terminated and truncated with rewards of 0, and the vector
#   environment's `terminal_observation` is zeros for both.
# Means: A death that should end a return bootstraps or not as a time limit does, and every episode is one step longer, in which a
#   policy is asked about zeros. Count by the environment's own flags, without the wrapper.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet supersuit==3.11.0 pettingzoo==1.27.0 gymnasium==1.4.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import gymnasium
import numpy as np
import supersuit
from pettingzoo import ParallelEnv


class Two(ParallelEnv):
    """Agents of which the first dies in step 3 and the second meets the time limit in step 5."""

    metadata = {"name": "two", "is_parallelizable": True}
    possible_agents = ["first", "second"]
    render_mode = None

    def observation_space(self, agent):
        return gymnasium.spaces.Box(0, 100, (1,), np.float32)

    def action_space(self, agent):
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.count = self.possible_agents[:], 0
        return self.seen(), {agent: {} for agent in self.agents}

    def seen(self):
        return {agent: np.float32([10 + self.count]) for agent in self.agents}

    def step(self, actions):
        self.count += 1
        seen, rewards = self.seen(), dict.fromkeys(self.agents, 1.0)
        died = {agent: agent == "first" and self.count == 3 for agent in self.agents}
        limit = {agent: agent == "second" and self.count == 5 for agent in self.agents}
        infos = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (died[agent] or limit[agent])]
        return seen, rewards, died, limit, infos


def episode(environment):
    environment.reset(seed=1)
    flags = []
    while environment.agents:
        _, rewards, died, limit, _ = environment.step(dict.fromkeys(environment.agents, 0))
        flags.append({agent: (rewards[agent], bool(died[agent]), bool(limit[agent])) for agent in rewards})
    return flags


plain, wrapped = episode(Two()), episode(supersuit.black_death_v3(Two()))
for name, flags in (("plain", plain), ("black_death", wrapped)):
    for step, agents in enumerate(flags, 1):
        print(f"{name}, step {step}: reward, terminated, truncated", agents)
vector = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(Two()))
vector.reset(seed=1)
for _ in range(6):
    _, rewards, died, limit, infos = vector.step(np.zeros(2, int))
last = [info["terminal_observation"].tolist() for info in infos]
print("vector environment, step 6:", rewards.tolist(), died.tolist(), limit.tolist(), "terminal observations", last)
never = all(not (died or limit) for agents in wrapped[:5] for _, died, limit in agents.values())
holds = len(plain) == 5 and len(wrapped) == 6 and never and set(wrapped[5].values()) == {(0.0, True, True)}
raise SystemExit(not (holds and last == [[0.0], [0.0]]))
PROGRAM
