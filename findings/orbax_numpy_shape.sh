#!/usr/bin/env bash
# orbax takes the shape of a numpy target for nothing, where it refuses a jax target of another shape
#
# Version: orbax-checkpoint 0.12.8, jax 0.10.2, numpy 2.4.6
# Belief: What is restored has the shapes of the target tree, or the restore fails, as the message of `strict=False` says.
# Seen: A jax target of 8 or 4 numbers is refused for a stored vector of 6. With a numpy target the vector of 6 comes back without a word, and a stored matrix for
#   a scalar or a transposed target. Types are the target's in both, with floats cut to integers.
# Means: A checkpoint of another network or population, restored into numpy vectors as searches keep them, is another size than the run's: sums over it
#   broadcast or end later elsewhere. Compare shapes after a restore.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet orbax-checkpoint==0.12.8 jax==0.10.2 numpy==2.4.6
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - "$folder" <<'PROGRAM'
import logging
import sys

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

logging.disable(logging.CRITICAL)
path = sys.argv[1] + "/state"
keeper = ocp.StandardCheckpointer()
keeper.save(path, {"mean": np.arange(6, dtype="f4") + 0.7, "weight": np.arange(6, dtype="f4").reshape(2, 3)})
keeper.wait_until_finished()


def restored(mean, weight):
    try:
        tree = ocp.StandardCheckpointer().restore(path, {"mean": mean, "weight": weight})
    except ValueError as error:
        return "refused: " + str(error)[:60]
    return {name: (array.shape, str(array.dtype)) for name, array in tree.items()} | {"first": float(tree["mean"][0])}


found = {}
for library in (jnp, np):
    for mean, weight in (((6,), (2, 3)), ((8,), (2, 3)), ((4,), (2, 3)), ((6,), (3, 2)), ((6,), ())):
        found[library.__name__, mean, weight] = restored(library.zeros(mean, "f4"), library.zeros(weight, "f4"))
        print(library.__name__, mean, weight, "->", found[library.__name__, mean, weight])
whole = restored(np.zeros(6, "i4"), np.zeros((2, 3), "f4"))
print("a target of integers:", whole)
jax_found = [value for (library, *_), value in found.items() if library != "numpy"]
numpy_found = [value for (library, *_), value in found.items() if library == "numpy"]
assert isinstance(jax_found[0], dict) and all(str(value).startswith("refused") for value in jax_found[1:])
assert all(value["mean"][0] == (6,) and value["weight"][0] == (2, 3) for value in numpy_found)
assert whole["first"] == 0.0 and whole["mean"][1] == "int32"
PROGRAM
