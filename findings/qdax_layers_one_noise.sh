#!/usr/bin/env bash
# In QDax's MEES all layers of a network have the same noise
#
# Version: qdax 0.5.0, jax 0.10.2 (CPU), numpy 2.4.6
# Belief: An evolution strategy gives each weight its own normal number.
# Seen: Each leaf of the parameters is drawn from the same key. Two layers of 8 x 8 have the same noise to the bit, in every member, and a bias
#   of 8 has the first 8 numbers of both. Of 136 weights 64 numbers are drawn. On a sphere of the second layer alone the estimated
#   gradient of the first one is the second's.
# Means: A network is searched in a subspace in which its layers move alike, and layers that do nothing drift with those that count. Flatten
#   the weights with `ravel_pytree` before they go to MEES.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 flax==0.12.8 optax==0.2.8 chex==0.1.92 scikit-learn==1.9.1
"$folder/venv/bin/pip" install --quiet --no-deps qdax==0.5.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from qdax.core.containers.mapelites_repertoire import compute_euclidean_centroids
from qdax.core.emitters.mees_emitter import MEESConfig, MEESEmitter
from qdax.core.map_elites import MAPElites
from qdax.utils.metrics import default_qd_metrics

populations = []


def scoring(members, key):
    jax.debug.callback(lambda tree: populations.append(jax.tree.map(np.array, tree)), members)
    fitness = -jnp.sum((members["second"] - 1) ** 2, axis=(-1, -2))
    return fitness, jax.nn.sigmoid(members["second"][:, 0, :2]), {}


config = MEESConfig(sample_number=32, sample_sigma=0.1, num_optimizer_steps=2, learning_rate=0.1)
emitter = MEESEmitter(config=config, total_generations=10, scoring_fn=scoring, num_descriptors=2)
centroids = compute_euclidean_centroids((5, 5), 0.0, 1.0)
search = MAPElites(scoring_function=scoring, emitter=emitter, metrics_function=partial(default_qd_metrics, qd_offset=0.0))
start = {"first": jnp.zeros((1, 8, 8)), "second": jnp.zeros((1, 8, 8)), "bias": jnp.zeros((1, 8))}
repertoire, state, _ = search.init(start, centroids, jax.random.key(0))
repertoire, state, _ = search.update(repertoire, state, jax.random.key(1))
jax.effects_barrier()
members = next(each for each in populations if len(each["bias"]) == 32)
alike = np.array_equal(members["first"], members["second"])
single = np.array_equal(members["bias"][0], members["first"][0, 0])
numbers = len(np.unique(np.concatenate([members[name][0].ravel() for name in members])))
moved = jax.tree.map(np.asarray, state.offspring)
print(f"first and second layer of 32 members have the same noise: {alike}; bias of a member is the head of its layers: {single}")
print(f"different numbers in a member's {sum(members[name][0].size for name in members)} weights: {numbers}")
print(f"after one step, mean of the second layer {moved['second'].mean():.3f}, of the first, which the fitness does not read, "
      f"{moved['first'].mean():.3f}; the same to the bit: {np.array_equal(moved['first'], moved['second'])}")
raise SystemExit(not (alike and single and numbers == 64 and np.array_equal(moved["first"], moved["second"])))
PROGRAM
