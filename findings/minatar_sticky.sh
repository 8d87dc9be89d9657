#!/usr/bin/env bash
# One policy has a return of 84 in gymnax's Breakout of MinAtar, and of 8 in pgx's and in MinAtar's own
#
# Version: gymnax 1.0.1, pgx 2.6.0, MinAtar 1.0.15, jax 0.10.2 (CPU), numpy 2.4.6
# Belief: Breakout of MinAtar is one game in three libraries, with the same returns up to chance.
# Seen: A policy that follows the ball has a mean return of 84 over 64 episodes in gymnax, all of them ended by the time limit of 1,000
#   steps, and of 8.2 and 8.5 in pgx and MinAtar, after some 100 steps. These two repeat the last action with a chance of 0.1, which
#   gymnax has not, and no option for it. With `sticky_action_prob=0` MinAtar has 84, too.
# Means: A return of 8 on MinAtar may be as good as one of 84 on gymnax. Say which library a score is from, or put sticky actions around
#   gymnax's games.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gymnax==1.0.1 pgx==2.6.0 MinAtar==1.0.15 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 seaborn==0.13.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pgx
from minatar import Environment

EPISODES, STEPS = 64, 1000


def follow(seen):
    """Return 0 to stay, 1 for left, 2 for right, from the channels of the paddle and of the ball."""
    paddle, ball = seen[..., 0].sum(0).argmax(), seen[..., 1].sum(0).argmax()
    return (ball < paddle) * 1 + (ball > paddle) * 2


def by_gymnax(key):
    environment, params = gymnax.make("Breakout-MinAtar")
    observation, state = environment.reset(key, params)

    def step(carry, key):
        observation, state, total, alive, count = carry
        observation, state, reward, ended = environment.step_env(key, state, follow(observation.astype(jnp.float32)), params)[:4]
        return (observation, state, total + reward * alive, alive * (1 - ended), count + alive), None

    carry, _ = jax.lax.scan(step, (observation, state, 0.0, 1.0, 0.0), jax.random.split(key, STEPS))
    return carry[2], carry[4]


def by_pgx(key):
    environment = pgx.make("minatar-breakout")

    def step(carry, key):
        state, total = carry
        state = environment.step(state, follow(state.observation.astype(jnp.float32)), key)
        return (state, total + state.rewards[0]), ~state.terminated

    (_, total), alive = jax.lax.scan(step, (environment.init(key), 0.0), jax.random.split(key, STEPS))
    return total, alive.sum()


def by_minatar(sticky):
    returns, lengths = [], []
    for seed in range(EPISODES):
        game = Environment("breakout", sticky_action_prob=sticky)
        game.seed(seed)
        game.reset()
        total = 0
        for count in range(1, STEPS + 1):
            reward, ended = game.act((0, 1, 3)[follow(game.state())])
            total += reward
            if ended:
                break
        returns.append(total)
        lengths.append(count)
    return returns, lengths


keys, means = jax.random.split(jax.random.key(0), EPISODES), {}
played = {
    "gymnax": jax.jit(jax.vmap(by_gymnax))(keys),
    "pgx": jax.jit(jax.vmap(by_pgx))(keys),
    "MinAtar": by_minatar(0.1),
    "MinAtar without sticky actions": by_minatar(0.0),
}
for name, (returns, lengths) in played.items():
    means[name] = float(np.mean(returns))
    print(f"{name}: mean return {means[name]:.1f}, mean length {float(np.mean(lengths)):.1f}")
holds = means["gymnax"] == means["MinAtar without sticky actions"] > 80 and max(means["pgx"], means["MinAtar"]) < 15
raise SystemExit(not holds)
PROGRAM
