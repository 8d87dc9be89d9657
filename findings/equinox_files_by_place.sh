#!/usr/bin/env bash
# An equinox file has no names: renamed layers swap their weights, and a sigma of 0.5 comes back as 0
#
# Version: equinox 0.13.8, jax 0.10.2
# Belief: `tree_deserialise_leaves` puts each leaf where it came from, or says that it does not fit.
# Seen: Leaves are read in their order. A dict of two layers whose first one was renamed from `body` to `trunk`, beside a
#   `head`, has the weights of the two exchanged, without a word, as both have one shape; another shape or type is refused. A
#   Python number takes the type of the skeleton's: a sigma saved as 0.5 is 0 where the skeleton has the integer 1, and True
#   where it has a bool.
# Means: A network that was refactored evaluates as an untrained one, and a resumed search with a sigma of 0 never moves.
#   Write the names beside it, and give floats as floats.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 equinox==0.13.8
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import io

import equinox as eqx
import jax.numpy as jnp


def saved(tree):
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, tree)
    file.seek(0)
    return file


layers = {"body": jnp.zeros((2, 2)), "head": jnp.ones((2, 2))}
renamed = eqx.tree_deserialise_leaves(saved(layers), {"trunk": jnp.full((2, 2), 7.0), "head": jnp.full((2, 2), 7.0)})
values = {name: float(weight[0, 0]) for name, weight in renamed.items()}
print("body was 0 and head 1; after the body was renamed:", values)
sigmas = [eqx.tree_deserialise_leaves(saved({"sigma": 0.5}), {"sigma": skeleton})["sigma"] for skeleton in (1.0, 1, True)]
print("a sigma of 0.5 read into 1.0, 1 and True:", sigmas)
try:
    eqx.tree_deserialise_leaves(saved(layers), {"body": jnp.zeros((3, 2)), "head": jnp.zeros((2, 2))})
    refused = False
except RuntimeError as error:
    refused = "shape" in str(error)
print("another shape is refused:", refused)
raise SystemExit(values != {"trunk": 1.0, "head": 0.0} or sigmas != [0.5, 0, True] or sigmas[1] is True or not refused)
EOF
