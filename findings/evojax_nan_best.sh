#!/usr/bin/env bash
# In evojax's PGPE a diverged member is the best one, and a plateau is a full step
#
# Version: evojax 0.2.17, jax 0.10.2
# Belief: A NaN is left out or worst; equal fitnesses leave the centre where it is; 21 members are 21, or refused.
# Seen: A fitness of NaN moves centre and deviation as plus infinity does, to the last bit: ranks are by argsort, and a maximum is sought. Of
#   20 equal fitnesses the centre moves by 0.15, the learning rate, in each coordinate. A population of 21 asks for 22.
# Means: A policy whose simulation breaks is what training goes to, and where all members score 0 the first generations are a random walk.
#   Replace NaN by the least fitness, and centre equal fitnesses before `tell`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evojax==0.2.17 jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import logging

import jax.numpy as jnp
import numpy as np

logging.disable(logging.CRITICAL)
from evojax.algo import PGPE  # noqa: E402


def step(change):
    solver = PGPE(pop_size=20, param_size=4, optimizer="adam", seed=0)
    members = solver.ask()
    solver.tell(change(-jnp.sum(jnp.square(members - 1), axis=1)))
    return np.concatenate([np.asarray(solver.best_params), np.asarray(solver._stdev)])


diverged, best, worst = (step(lambda fitness, value=value: fitness.at[4].set(value)) for value in (jnp.nan, jnp.inf, -jnp.inf))
flat = step(lambda fitness: fitness * 0)
asked = PGPE(pop_size=21, param_size=4, seed=0).ask().shape[0]
print("as plus infinity:", bool((diverged == best).all()), "| as minus infinity:", bool((diverged == worst).all()))
print("centre after equal fitnesses:", flat[:4].round(4), "| members of a population of 21:", asked)
raise SystemExit(not ((diverged == best).all() and (diverged != worst).any() and (abs(flat[:4]) > 0.14).all() and asked == 22))
EOF
