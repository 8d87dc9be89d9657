#!/usr/bin/env bash
# The best state that `nnx.state` gave follows the training, and putting it back does nothing
#
# Version: flax 0.12.8, optax 0.2.8, jax 0.10.2, numpy 2.4.6
# Belief: `best = nnx.state(model)` holds the weights of now, as jax's arrays never change.
# Seen: After one step of the optimizer `best` has the new weights, and `nnx.update(model, best)` leaves the model as it is. So do the state
#   of `nnx.split(model)`, `nnx.merge(*nnx.split(model))`, `copy.copy` and `nnx.view`: a change of one is a change of both. `nnx.clone`,
#   `deepcopy`, `nnx.to_pure_dict` and `jax.tree.map(lambda x: x, state)` are copies.
# Means: The best network of a run, a centre that members start from and a target network are the current one, without a word.
#   Take `nnx.clone`, or a pure dict.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet flax==0.12.8 optax==0.2.8 jax==0.10.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

ways = {
    "state": nnx.state,
    "split": lambda model: nnx.split(model)[1],
    "merge of split": lambda model: nnx.state(nnx.merge(*nnx.split(model))),
    "copy": lambda model: nnx.state(copy.copy(model)),
    "clone": lambda model: nnx.state(nnx.clone(model)),
    "deepcopy": lambda model: copy.deepcopy(nnx.state(model)),
    "pure dict": lambda model: nnx.to_pure_dict(nnx.state(model)),
    "tree map": lambda model: jax.tree.map(lambda x: x, nnx.state(model)),
}
follows = {}
for name, way in ways.items():
    model = nnx.Linear(2, 2, rngs=nnx.Rngs(0))
    old = np.asarray(model.kernel[...]).copy()
    best = way(model)
    optimizer = nnx.Optimizer(model, optax.sgd(1.0), wrt=nnx.Param)
    optimizer.update(model, nnx.grad(lambda model: model(jnp.ones((1, 2))).sum())(model))
    moved = not np.array_equal(np.asarray(model.kernel[...]), old)
    follows[name] = not np.array_equal(np.asarray(best["kernel"][...]), old)
    nnx.update(model, best)
    back = np.array_equal(np.asarray(model.kernel[...]), old)
    print(name, "training moved the model:", moved, "what was taken before follows:", follows[name], "put back:", back)
    assert moved and back != follows[name]
raise SystemExit(list(follows.values()) != [True] * 4 + [False] * 4)
EOF
