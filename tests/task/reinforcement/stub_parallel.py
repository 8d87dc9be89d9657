"""Parallel environments as PettingZoo's, whose agents end one after the other; ``parallel_env`` makes them."""

import numpy as np
from gymnasium.spaces import Box, Discrete


class Parallel:
    """Agents a, b, c see three numbers; the k-th ends after ``lives[k]`` steps. A reward is the action times its life."""

    def __init__(self, lives=(2, 5, 3), unequal=False, late=False) -> None:
        self.lives = dict(zip("abc", lives, strict=True))
        self.possible_agents, self.unequal, self.late = list(self.lives), unequal, late

    def observation_space(self, agent):
        return Box(-np.inf, np.inf, (4 if self.unequal and agent == "c" else 3,))

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.random, self.steps = np.random.default_rng(seed), 0
        self.agents = list("bc" if self.late else "abc")
        return self.seen(), {}

    def seen(self):
        return {agent: self.random.normal(size=3).astype(np.float32) for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.steps += 1
        rewards = {agent: float(actions[agent]) * self.lives[agent] for agent in self.agents}
        over = {agent: self.steps == self.lives[agent] for agent in self.agents}
        self.agents = [agent for agent in self.agents if not over[agent]]
        if self.late and self.steps == 1:
            self.agents = ["a", *self.agents]  # it enters now
        return self.seen(), rewards, over, dict.fromkeys(over, False), {}

    def close(self) -> None: ...


def parallel_env(**options):
    return Parallel(**options)
