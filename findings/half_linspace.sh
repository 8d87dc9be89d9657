#!/usr/bin/env bash
# A `linspace` in half precision counts in that type: centred utilities do not sum to zero in jax, and 70,000 are two values in jax and torch
#
# Version: jax 0.10.2 (CPU), torch 2.14.1, ml_dtypes 0.6.0, numpy 2.4.6
# Belief: `linspace(-0.5, 0.5, members)` in half precision is the exact number, rounded once: antisymmetric, with a sum of zero.
# Seen: NumPy does so. In bfloat16 1,000 utilities have 756 values in it, 507 in torch and 315 in jax, where they sum to -0.47, and 70,000
#   to -72. In float16 70,000 are -0.5 and 0.5 and nothing between in torch, and -0.5, 0.5 and NaN in jax: the number of members is
#   infinite in that type. 257 members are exact in all.
# Means: Utilities with another sum than zero move the centre along the mean of the noise, and two thirds of the members share a
#   rank. Make the numbers in float32, and cast them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6 torch==2.14.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch

seen = {}
for name, members in (("bfloat16", 257), ("bfloat16", 1000), ("bfloat16", 70_000), ("float16", 1000), ("float16", 70_000)):
    exact = np.linspace(-0.5, 0.5, members)
    half = ml_dtypes.bfloat16 if name == "bfloat16" else np.float16
    ways = {
        "jax": np.asarray(jnp.linspace(-0.5, 0.5, members, dtype=name), np.float64),
        "torch": torch.linspace(-0.5, 0.5, members, dtype=getattr(torch, name)).double().numpy(),
        "numpy": np.linspace(-0.5, 0.5, members, dtype=half).astype(np.float64),
    }
    for way, values in ways.items():
        finite = values[np.isfinite(values)]
        seen[name, members, way] = len(finite), len(np.unique(finite)), float(np.nansum(values)), float(np.nanmax(abs(values - exact)))
        print(f"{name}, {members} members, {way}: finite %d, values %d, sum %.3f, furthest off %.5f" % seen[name, members, way])
few, many, empty = (seen[key] for key in (("bfloat16", 1000, "jax"), ("bfloat16", 70_000, "jax"), ("float16", 70_000, "jax")))
holds = few[1] < 350 and few[2] < -0.4 and few[3] > 4 * seen["bfloat16", 1000, "numpy"][3] and many[2] < -50 and empty[0] < 70_000 and empty[1] == 2
holds &= all(abs(value[2]) < 0.01 for key, value in seen.items() if key[2] != "jax" or key[1] == 257)
holds &= seen["bfloat16", 1000, "torch"][1] < 600 and seen["float16", 70_000, "torch"][1] == 2 and seen["bfloat16", 1000, "numpy"][1] == 756
raise SystemExit(not holds)
PROGRAM
