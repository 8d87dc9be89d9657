#!/usr/bin/env bash
# torch.sign of NaN is 0, so that a diverged gradient moves nothing
#
# Version: torch 2.14.1, numpy 2.4.6, jax 0.10.2, jaxlib 0.10.2
# Belief: The sign of NaN is NaN, as in numpy and jax; a step by signs with a NaN in the gradient shows it.
# Seen: torch.sign and torch.sgn give 0 where numpy and jax give NaN. A step of sign descent whose estimate is NaN in every
#   number leaves the weights as they are, for as many steps as one likes, where the same lines in jax give NaN weights.
#   Rprop, which is built on sign, stands still too.
# Means: A run by signs (Lion, signSGD, 1-bit votes) in torch with one infinite fitness looks converged, not broken: the curve
#   is flat and finite. Check the estimate before the sign, not the weights after it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 jax==0.10.2 jaxlib==0.10.2
cat >"$folder/program.py" <<'EOF'
import jax.numpy as jnp
import numpy as np
import torch

nan = float("nan")
one = torch.tensor(nan)
signs = {"torch": torch.sign(one), "torch.sgn": torch.sgn(one), "numpy": np.sign(nan), "jax": jnp.sign(nan)}
signs = {name: float(value) for name, value in signs.items()}
print("sign of NaN:", signs)
noise = torch.randn(64, 1000, generator=torch.Generator().manual_seed(0))
fitness = noise[:, 0].clone()
fitness[7] = float("inf")
estimate = (fitness - fitness.mean()) @ noise
weights = torch.ones(1000)
for _ in range(10):
    weights -= 0.01 * torch.sign(estimate)
peer = jnp.ones(1000) - 0.01 * jnp.sign(jnp.asarray(estimate.numpy()))
print(f"estimate with one infinite fitness: {int(estimate.isnan().sum())} of 1000 numbers are NaN")
print(f"after ten steps torch has moved by {float((weights - 1).abs().max())}; jax after one has {int(jnp.isnan(peer).sum())} NaN")
parameter = torch.nn.Parameter(torch.ones(1000))
optimizer = torch.optim.Rprop([parameter])
for _ in range(10):
    parameter.grad = estimate.clone()
    optimizer.step()
print("Rprop after ten steps: moved by", float((parameter.detach() - 1).abs().max()))
zero = signs["torch"] == signs["torch.sgn"] == 0 and np.isnan(signs["numpy"]) and np.isnan(signs["jax"])
raise SystemExit(not (zero and bool((weights == 1).all()) and int(jnp.isnan(peer).sum()) == 1000))
EOF
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore "$folder/program.py"
