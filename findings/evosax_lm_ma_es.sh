#!/usr/bin/env bash
# The LM-MA-ES of evosax is NaN from the second generation on where the population is more than twice the number of parameters
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU)
# Belief: With its default settings a strategy of evosax runs with any population; for few parameters it learns slower at worst.
# Seen: The rates of its m direction vectors are population / (4**i n) and nothing limits them to 1. From a rate of 2 on, the square root of
#   rate (2 - rate) is NaN: on a sphere of 8 dimensions populations up to 16 are right, and from 18 on mean and members are NaN from the
#   second generation on, with no word. `best_fitness` keeps the best number of the first. MA_ES runs with all of them.
# Means: A sweep over population sizes, or a test on a small problem, shows a strategy that fails. Limit `params.c_c` to 1:
#   `params.replace(c_c=jnp.minimum(params.c_c, 1.0))` improves with 18 members.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax
import jax.numpy as jnp
from evosax.algorithms import LM_MA_ES, MA_ES


def run(kind, population, limited=False, n=8):
    strategy = kind(population_size=population, solution=jnp.zeros(n))
    params = strategy.default_params
    if limited:
        params = params.replace(c_c=jnp.minimum(params.c_c, 1.0))

    def generation(state, key):
        ask, tell = jax.random.split(key)
        x, state = strategy.ask(ask, state, params)
        return strategy.tell(tell, x, ((x - 1) ** 2).sum(1), state, params)[0], jnp.isnan(x).any()

    start = strategy.init(jax.random.key(0), jnp.zeros(n), params)
    state, bad = jax.jit(lambda start: jax.lax.scan(generation, start, jax.random.split(jax.random.key(1), 100)))(start)
    return float(((strategy.get_mean(state) - 1) ** 2).sum()), int(bad.argmax()) if bool(bad.any()) else None, float(state.best_fitness)


holds = True
for kind, population, limited in ((LM_MA_ES, 16, False), (LM_MA_ES, 18, False), (LM_MA_ES, 18, True), (MA_ES, 18, False)):
    mean, first, best = run(kind, population, limited)
    print(f"{kind.__name__}, {population} members{', rates limited' if limited else ''}: loss of the mean {mean:.2g}, first NaN {first}, best {best:.2g}")
    holds &= (first == 1 and mean != mean and best == best) if (kind, population, limited) == (LM_MA_ES, 18, False) else (first is None and mean < 1)
raise SystemExit(not holds)
PROGRAM
