#!/usr/bin/env bash
# One diverged member of 20 makes the mean NaN for ever in nine of evosax's strategies, and in its DE nothing improves
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU)
# Belief: evosax puts a NaN last, as its ES with ranks do: they come through a NaN in each generation.
# Seen: On a sphere of 8 dimensions, where the fourth member of the first generation alone is NaN, all is NaN from then on in LearnedES,
#   EvoTF_ES, LearnedGA, DiffusionEvolution, GuidedES, NoiseReuseES, PersistentES, ASEBO and ESMC, also 100 generations later. A member
#   of DifferentialEvolution whose first fitness is NaN is never replaced. `best_fitness` is a number in all, as if the run had merely stalled.
#   CMA_ES, SNES, Open_ES and SimpleGA go on, and MA_ES, PGPE and SimpleES did when they were tried.
# Means: A comparison of learned with classical strategies on a task that can diverge is decided by the first NaN. Replace it before `tell`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import evosax.algorithms as algorithms
import jax
import jax.numpy as jnp

N, POPULATION = 8, 20


def run(name):
    kind = getattr(algorithms, name)
    strategy, first = kind(population_size=POPULATION, solution=jnp.zeros(N)), jax.random.normal(jax.random.key(2), (POPULATION, N))
    params, by_mean = strategy.default_params, "distribution" in kind.__module__

    def generation(state, item):
        number, key = item
        ask, tell = jax.random.split(key)
        x, state = strategy.ask(ask, state, params)
        fitness = ((x - 1) ** 2).sum(1)
        bad = (number == 0) & (jnp.arange(POPULATION) == 3)
        return strategy.tell(tell, x, jnp.where(bad, jnp.nan, fitness), state, params)[0], jnp.isnan(fitness).any()

    def play(key):
        fitness = ((first - 1) ** 2).sum(1).at[3].set(jnp.nan)
        start = strategy.init(key, jnp.zeros(N), params) if by_mean else strategy.init(key, first, fitness, params)
        return jax.lax.scan(generation, start, (jnp.arange(100), jax.random.split(key, 100)))

    state, bad = jax.jit(play)(jax.random.key(0))
    return bool(bad[-1]), float(state.best_fitness), int(jnp.isnan(state.fitness).sum()) if hasattr(state, "fitness") else 0


LOST = ("LearnedES", "EvoTF_ES", "LearnedGA", "DiffusionEvolution", "GuidedES", "NoiseReuseES", "PersistentES", "ASEBO", "ESMC")
holds = True
for name in (*LOST, "DifferentialEvolution", "CMA_ES", "SNES", "Open_ES", "SimpleGA"):
    last, best, held = run(name)
    print(f"{name}: members of the last generation are {'NaN' if last else 'numbers'}, best {best:.2g}, {held} of {POPULATION} held with a NaN")
    holds &= best == best and last == (name in LOST) and (held > 0) == (name in ("LearnedGA", "DiffusionEvolution", "DifferentialEvolution"))
raise SystemExit(not holds)
PROGRAM
