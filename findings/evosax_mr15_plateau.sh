#!/usr/bin/env bash
# After a plateau evosax's MR15-GA has a mutation rate of 0, for ever
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU)
# Belief: A mutation rate by the rule of a fifth is reduced on a plateau, and grows again once there is something to gain.
# Seen: A generation in which at most a fifth of the members improve halves the rate, one of equal fitnesses too, and nothing limits it
#   below. After 160 equal generations it is 0 in float32, twice 0 is 0, and 300 generations on a sphere behind the plateau leave the
#   population where it was: all children are copies. After 20 equal generations it recovers. SAMR-GA and SimpleGA improve behind either plateau.
# Means: A sparse reward that is 0 for long, or a run that goes on after it has converged, ends the search, and only the fitness that stays says so. Set
#   `params.replace(std_min=1e-3)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax
import jax.numpy as jnp
from evosax.algorithms import MR15_GA, SAMR_GA, SimpleGA


def run(kind, plateau, least=None):
    strategy = kind(population_size=32, solution=jnp.zeros(8))
    params, start = strategy.default_params, jax.random.normal(jax.random.key(9), (32, 8)) + 3
    if least is not None:
        params = params.replace(std_min=least)

    def generation(state, item):
        key, count = item
        ask, tell = jax.random.split(key)
        x, state = strategy.ask(ask, state, params)
        loss = jnp.where(count < plateau, 1e4, ((x - 1) ** 2).sum(1))
        return strategy.tell(tell, x, loss, state, params)[0], (loss.min(), jnp.mean(state.std))

    count = plateau + 300
    state = strategy.init(jax.random.key(0), start, jnp.full(32, 1e4), params)
    items = jax.random.split(jax.random.key(1), count), jnp.arange(count)
    _, (best, rate) = jax.jit(lambda state: jax.lax.scan(generation, state, items))(state)
    return float(best[plateau]), float(best[-1]), float(rate[plateau]), float(rate[-1])


holds = True
for kind, plateau, least in ((MR15_GA, 20, None), (MR15_GA, 160, None), (MR15_GA, 160, 1e-3), (SAMR_GA, 160, None), (SimpleGA, 160, None)):
    first, last, rate, end = run(kind, plateau, least)
    print(f"{kind.__name__}{f', std_min {least}' if least else ''}: {plateau} equal generations, then losses from {first:.3g} to {last:.3g}; rate {rate:.2g} to {end:.2g}")
    holds &= (first == last and rate == end == 0) if (kind, plateau, least) == (MR15_GA, 160, None) else last < first / 2
raise SystemExit(not holds)
PROGRAM
