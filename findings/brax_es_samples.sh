#!/usr/bin/env bash
# brax's ES scores policies by sampled actions, in training and in evaluation, and its population of 8 is 16 episodes
#
# Version: brax 0.14.2, jax 0.10.2 (CPU), flax 0.12.8, mujoco 4.0.0, numpy 2.4.6
# Belief: As in the paper that its page names (Salimans et al. 2017) a member is a network with deterministic actions, and
#   `population_size=8` is 8 members.
# Seen: The network has two outputs for each action, and an action is the tanh of a normal number with the second one as deviation, about 0.7
#   at first. Equal members (no perturbation) in an environment without chance have other returns in each episode, by some 20 % of the mean;
#   evaluation samples too, as `deterministic_eval=False` is the default. A generation is 16 episodes, two for each of 8 directions. ARS of
#   the same package has equal returns for equal members.
# Means: ES of brax needs more members than others for the same signal, learns a policy that may need its noise, and is not the algorithm of
#   the paper. Count steps of the environment, pass `deterministic_eval=True`, or a `network_factory` with a narrow distribution.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet brax==0.14.2 jax==0.10.2 jaxlib==0.10.2 flax==0.12.8 optax==0.2.8 mujoco==4.0.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import jax.numpy as jnp
from brax.envs.base import Env, State
from brax.training.agents.ars import train as ars
from brax.training.agents.es import train as es


class Still(Env):
    """Environment without chance: the observation is constant, and the return falls with the distance of the action from a half."""

    observation_size, action_size, backend = 3, 2, "none"

    def reset(self, rng):
        return State(None, jnp.ones(3), jnp.zeros(()), jnp.zeros(()), {}, {})

    def step(self, state, action):
        return state.replace(reward=-jnp.square(action[0] - 0.5))


steps = []
common = {"num_timesteps": 1, "episode_length": 10, "num_eval_envs": 8, "progress_fn": lambda count, _: steps.append(count)}
_, _, sampled = es.train(Still(), population_size=8, perturbation_std=0.0, learning_rate=0.0, num_evals=2, **common)
_, _, fixed = ars.train(Still(), number_of_directions=8, top_directions=4, exploration_noise_std=0.0, step_size=0.0, **common)
spreads = {}
for name, metrics in (("ES", sampled), ("ARS", fixed)):
    spreads[name] = float(metrics["training/eval_scores_std"]), float(metrics["eval/episode_reward_std"])
    print(f"{name}: returns of 16 equal members {float(metrics['training/eval_scores_mean']):.2f} with deviation {spreads[name][0]:.2f}; "
          f"of 8 evaluations {float(metrics['eval/episode_reward']):.2f} with deviation {spreads[name][1]:.2f}")
print(f"steps of one generation with population_size=8 and episodes of 10 steps: {steps[-2]}")
raise SystemExit(not (min(spreads["ES"]) > 0.3 and max(spreads["ARS"]) == 0 and steps[-2] == 160))
PROGRAM
