#!/usr/bin/env bash
# Under jit jax adds constants up first, so rounding by a large constant rounds nothing
#
# Version: jax 0.10.2
# Belief: A jitted function computes what the function says, in float32, to the last bits.
# Seen: `(x + c) - c` with a constant c is `x`: rounding to whole numbers by adding and subtracting 1.5 * 2^23 leaves all 1,000
#   numbers as they are, and the rounding error of a sum with a constant is 0 in place of 1.25. `(x * 1e-30) * 1e30` does not
#   underflow. Without jit, or with the constant as an argument, all is as written.
# Means: Quantised weights and levels of noise that were right in a test without jit are not quantised in the run; and compensated
#   sums with a constant start compensate nothing. Use `jnp.round` and `lax.reduce_precision`, or pass constants as arguments.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

x, magic = jnp.asarray(10 * np.random.default_rng(0).standard_normal(1000), jnp.float32), jnp.float32(1.5 * 2**23)
rounded = lambda x: (x + magic) - magic
passed = jax.jit(lambda x, magic: (x + magic) - magic)
whole = lambda values: int((values == jnp.round(x)).sum())
counts = whole(rounded(x)), whole(jax.jit(rounded)(x)), int((jax.jit(rounded)(x) == x).sum()), whole(passed(x, magic))
print("whole numbers of 1,000: {} without jit, {} jitted ({} are as before), {} with the constant as an argument".format(*counts))


def error(start, step):
    total = start + step
    return (start - (total - (total - start))) + (step - (total - start))


errors = float(error(jnp.float32(1e8), jnp.float32(1.25))), float(jax.jit(lambda step: error(jnp.float32(1e8), step))(jnp.float32(1.25)))
small = lambda x: (x * 1e-30) * 1e30
unders = float(small(jnp.float32(1e-10))), float(jax.jit(small)(jnp.float32(1e-10)))
print("rounding error of 1e8 + 1.25:", errors, "| 1e-10 times 1e-30 times 1e30:", unders)
raise SystemExit(not (counts == (1000, 0, 1000, 1000) and errors == (1.25, 0) and unders[0] == 0 < unders[1]))
EOF
