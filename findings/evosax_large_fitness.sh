#!/usr/bin/env bash
# Fitnesses in float64 are float32 before they are ranked
#
# Version: evosax 0.3.2, jax 0.10.2 (CPU)
# Belief: Strategies that use ranks alone do the same whatever constant is added to all fitnesses, as long as the caller's
#   float64 keeps their order.
# Seen: With 1e8 added to fitnesses of 0 to 7 members tie, and one step of SNES and of CMA_ES goes elsewhere, by about its own
#   length.
# Means: A summed loss over many examples, or a return with a large offset, makes a comparison with evosax one of rounding.
#   Subtract the mean before `tell`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet evosax==0.3.2 jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np
from evosax.algorithms import CMA_ES, SNES

holds = True
for strategy in (SNES, CMA_ES):
    means = []
    for offset in (0.0, 1e8):
        es = strategy(population_size=8, solution=jnp.zeros(4))
        params, key = es.default_params, jax.random.key(0)
        population, state = es.ask(key, es.init(key, jnp.zeros(4), params), params)
        fitness = offset + np.array([3.0, 1, 4, 2, 7, 5, 6, 0])
        state, _ = es.tell(key, population, fitness, state, params)
        means.append(np.asarray(es.get_mean(state)))
    share = np.linalg.norm(means[0] - means[1]) / np.linalg.norm(means[0])
    print(f"{strategy.__name__}: the step with 1e8 added differs by {share:.2f} of its length")
    holds &= share > 0.1
raise SystemExit(not holds)
EOF
