#!/usr/bin/env bash
# With its defaults the mutation rate of evosax's GESMR-GA is a random walk that no fitness reaches
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU)
# Belief: The genetic algorithm with group elite selection of mutation rates adapts its mutation rate.
# Seen: The default is one group, and in one group there is nothing to select: the rate is multiplied by a random factor of 1/2 to 2 in each generation, and is the
#   same to the last bit on a sphere, on its negative and on a plateau. On a sphere of 8 dimensions with 33 members 400 generations end at losses
#   of 7e-9 to 4e-6 by the seed; with `num_groups=8` the rate follows the fitness, and all five seeds end at a loss of 0.
# Means: A comparison with the defaults shows luck. Set `num_groups`; it must divide the population less one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import GESMR_GA

losses = {
    "sphere": lambda x: ((x - 1) ** 2).sum(1),
    "its negative": lambda x: -((x - 1) ** 2).sum(1),
    "plateau": lambda x: jnp.zeros(x.shape[0]),
}


def runner(kind, loss, generations, **settings):
    strategy = kind(population_size=33, solution=jnp.zeros(8), **settings)
    params, start = strategy.default_params, jax.random.normal(jax.random.key(9), (33, 8)) + 3

    def generation(state, key):
        ask, tell = jax.random.split(key)
        x, state = strategy.ask(ask, state, params)
        return strategy.tell(tell, x, loss(x), state, params)[0], jnp.mean(state.std)

    @jax.jit
    def run(seed):
        state = strategy.init(jax.random.key(seed), start, loss(start), params)
        state, rates = jax.lax.scan(generation, state, jax.random.split(jax.random.key(seed + 1), generations))
        return rates, state.best_fitness

    return run


holds = True
for kind, settings in ((GESMR_GA, {}), (GESMR_GA, {"num_groups": 8})):
    sphere = runner(kind, losses["sphere"], 400, **settings)
    rates = [np.array(sphere(0)[0]), *(np.array(runner(kind, losses[name], 400, **settings)(0)[0]) for name in ("its negative", "plateau"))]
    alike = all(np.array_equal(rates[0], rate) for rate in rates)
    ends = [float(sphere(seed)[1]) for seed in (0, 7, 14, 21, 28)]
    print(f"{kind.__name__} {settings}: the same mutation rates on {', '.join(losses)}: {alike}; losses of five seeds", *(f"{end:.1g}" for end in ends))
    holds &= alike == (not settings) and (max(ends) < 1e-12 if settings else min(ends) > 1e-10)
raise SystemExit(not holds)
PROGRAM
