#!/usr/bin/env bash
# numpy flushes subnormal numbers within a jax callback, and not outside of it
#
# Version: jax 0.10.2, numpy 2.4.6 (a CPU, x86-64)
# Belief: A function that jax calls on the host computes what it computes when it is called directly.
# Seen: Within pure_callback and io_callback, jitted or not, numpy makes subnormal results and inputs 0; within debug.callback and outside it does
#   not. jax itself orders subnormals wrongly: argmax and sort take all of them for one number, abs and neg leave them.
# Means: A numpy simulator or loss in a callback has a log of minus infinity where called directly it has -90, so its fitness is infinite in one loop and
#   finite in the other, and a test that calls the function itself sees nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 numpy==2.4.6
cd "$folder"
JAX_PLATFORMS=cpu "$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

seen = []
logits = np.array([0.0, -90.0], np.float32)


def loss(logits):
    """Return the logarithm of the second probability, -90."""
    exponentials = np.exp(np.asarray(logits))
    value = np.log(exponentials[1] / exponentials.sum())
    seen.append(float(value))
    return value


scalar = jax.ShapeDtypeStruct((), jnp.float32)
calls = {
    "directly": lambda: loss(logits),
    "pure_callback": lambda: jax.pure_callback(loss, scalar, logits),
    "pure_callback, jitted": lambda: jax.jit(lambda x: jax.pure_callback(loss, scalar, x))(logits),
    "io_callback": lambda: io_callback(loss, scalar, logits),
    "io_callback, jitted": lambda: jax.jit(lambda x: io_callback(loss, scalar, x))(logits),
    "debug.callback": lambda: jax.debug.callback(lambda x: loss(x), logits),
    "directly again": lambda: loss(logits),
}
found = {}
with np.errstate(all="ignore"):
    for name, call in calls.items():
        jax.block_until_ready(call())
        jax.effects_barrier()
        found[name] = seen[-1]
print(found)
small = np.array([3e-40, 1e-40, 2e-40], np.float32)
print("of 3e-40, 1e-40, 2e-40: sorted", jnp.sort(small), "argmin", int(jnp.argmin(small)), "by numpy", int(np.argmin(small)))
assert all((value == -np.inf) == ("pure" in name or "io_" in name) for name, value in found.items())
assert np.array_equal(jnp.sort(small), small) and int(jnp.argmin(small)) == 0
PROGRAM
