#!/usr/bin/env bash
# With an action repeat brax counts rewards after a fall, and misses a fall between two actions
#
# Version: brax 0.14.2, jax 0.10.2
# Belief: An episode ends with the step in which the environment says so, with `action_repeat` too.
# Seen: `EpisodeWrapper` runs all repeats and takes the last one's `done`. With four repeats and a fall in step 5 the second
#   action has the reward of four steps where one is right. A fall that is over by step 8, such as a touch of the ground, is
#   no end at all; without repeats it is one. `info["steps"]` counts the repeats.
# Means: A fitness under action repeat is larger by up to the repeats less one, and a controller that touches the ground
#   between two actions lives on. Compare with one repeat.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 brax==0.14.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
from brax.envs.base import Env, State
from brax.envs.wrappers.training import EpisodeWrapper


class Fall(Env):
    observation_size, action_size, backend = 1, 1, "none"

    def __init__(self, lies):
        self.lies = lies

    def reset(self, rng):
        zero = jnp.zeros(())
        return State(pipeline_state=None, obs=jnp.zeros(1), reward=zero, done=zero, info={"time": zero})

    def step(self, state, action):
        time = state.info["time"] + 1
        fallen = (time >= 5) & (time < 5 + self.lies)
        return state.replace(reward=jnp.ones(()), done=fallen.astype(jnp.float32), info=state.info | {"time": time})


seen = {}
for lies in (100, 2):
    for repeat in (1, 4):
        env = EpisodeWrapper(Fall(lies), 12, repeat)
        state, total = env.reset(jax.random.key(0)), 0.0
        while not state.done:
            state = env.step(state, jnp.zeros(1))
            total += float(state.reward)
        seen[lies, repeat] = total, int(state.info["steps"])
        print(f"a fall in step 5 that lasts {lies} steps, {repeat} repeats: return and steps", *seen[lies, repeat])
raise SystemExit(seen != {(100, 1): (5.0, 5), (100, 4): (8.0, 8), (2, 1): (5.0, 5), (2, 4): (12.0, 12)})
EOF
