#!/usr/bin/env bash
# optax makes float16 gradients zero from a norm of 256 on, where torch clips them
#
# Version: optax 0.2.8, jax 0.10.2, torch 2.14.1, numpy 2.4.6
# Belief: `clip_by_global_norm(1.0)` scales a gradient to a norm of 1.
# Seen: 900 float16 gradients of 10 have a norm of 300; optax's `global_norm` is infinite and the clipped gradient 0. torch's
#   `clip_grad_norm_` finds 300 and clips. From a norm of 65,504 on torch's is infinite and the gradient 0 as well. In bfloat16 and
#   float32 both are right.
# Means: The larger the gradient, the less is learnt: a network whose gradient passes 256 stands still, and no number is NaN. Clip in
#   float32, before the cast.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet optax==0.2.8 jax==0.10.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax.numpy as jnp
import numpy as np
import optax
import torch

seen = {}
for name in ("float16", "bfloat16"):
    for size in (10.0, 3000.0):
        gradient = {"w": jnp.full(900, size, getattr(jnp, name))}
        clip = optax.clip_by_global_norm(1.0)
        clipped = np.linalg.norm(np.asarray(clip.update(gradient, clip.init(gradient))[0]["w"], np.float64))
        weight = torch.nn.Parameter(torch.zeros(900, dtype=getattr(torch, name)))
        weight.grad = torch.full_like(weight, size)
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        other = float(weight.grad.double().norm())
        print(name, "a norm of", 30 * size, "clipped to 1: optax", clipped, "torch", other, "global_norm", optax.global_norm(gradient))
        seen[name, size] = round(float(clipped), 1), round(other, 1)
expected = {("float16", 10.0): (0, 1), ("float16", 3000.0): (0, 0), ("bfloat16", 10.0): (1, 1), ("bfloat16", 3000.0): (1, 1)}
raise SystemExit(seen != expected)
EOF
