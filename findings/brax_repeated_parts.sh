#!/usr/bin/env bash
# With an action repeat the parts of a return in brax do not add up to it: each is counted once for four steps
#
# Version: brax 0.14.2, jax 0.10.2 (CPU), numpy 2.4.6
# Belief: An episode's metrics, such as `reward_forward` and `reward_ctrl`, are sums over its steps, and add up to its reward.
# Seen: With `action_repeat=4` an episode of 12 steps with a reward of 1, all of it in one part, has a reward of 12 and a part of 3, in the
#   metrics of an evaluation and in `episode_metrics`. Those hold a key `reward`, too, which is always 0, beside `sum_reward`.
# Means: A cost of control looks four times smaller beside the reward than it is, and curves of runs with another repeat cannot be compared.
#   Multiply parts by the repeat where they change slowly, or add them up in the environment.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet brax==0.14.2 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import jax
import jax.numpy as jnp
from brax.envs.base import Env, State
from brax.envs.wrappers import training

ONE, NONE = jnp.float32(1), jnp.float32(0)


class Constant(Env):
    """Environment whose reward is 1 in each step, all of it in one part."""

    observation_size, action_size, backend = 1, 1, "none"

    def reset(self, rng):
        return State(None, jnp.zeros(1), NONE, NONE, {"reward": NONE, "reward_forward": NONE}, {})

    def step(self, state, action):
        return state.replace(obs=state.obs + 1, reward=ONE, metrics={"reward": ONE, "reward_forward": ONE})


seen = {}
for repeat in (1, 4):
    keys, action = jax.random.split(jax.random.PRNGKey(0), 1), jnp.zeros((1, 1))
    evaluated = training.EvalWrapper(training.wrap(Constant(), 12, repeat))
    episode = training.EpisodeWrapper(training.VmapWrapper(Constant()), 12, repeat)
    state, trained = evaluated.reset(keys), episode.reset(keys)
    for _ in range(12 // repeat):
        state, trained = evaluated.step(state, action), episode.step(trained, action)
    first = {name: float(value[0]) for name, value in state.info["eval_metrics"].episode_metrics.items()}
    second = {name: float(value[0]) for name, value in trained.info["episode_metrics"].items()}
    seen[repeat] = (first["reward"], first["reward_forward"], second["sum_reward"], second["reward_forward"], second["reward"])
    print(f"action_repeat={repeat}: evaluation {first}, training {second}")
raise SystemExit(seen != {1: (12, 12, 12, 12, 0), 4: (12, 3, 12, 3, 0)})
PROGRAM
