#!/usr/bin/env bash
# A maximum over devices of jax on a CPU leaves a NaN out
#
# Version: jax 0.10.2, four devices of a CPU
# Belief: `pmax` and `pmin` over devices give NaN where one device has a NaN, as `jnp.max` and `psum` do.
# Seen: With a NaN on any one of four devices all get the greatest, and the least, of the other three; `psum` is NaN and so is
#   `jnp.max` of the gathered numbers.
# Means: A member that diverged on one device does not show in a maximum that guards a step (a norm, a loss scale, the worst
#   fitness), and the best fitness of a generation hides it. Gather and use `jnp.max`, or reduce `isnan` too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
cd "$folder"
XLA_FLAGS=--xla_force_host_platform_device_count=4 "$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

over = lambda operation: jax.pmap(lambda value: operation(value, "d"), axis_name="d")
holds = True
for place in range(4):
    values = np.float32([1, 2, 3, 4])
    values[place] = np.nan
    rest = np.delete(values, place)
    most, least, total = (np.asarray(over(operation)(values)) for operation in (jax.lax.pmax, jax.lax.pmin, jax.lax.psum))
    print(f"NaN on device {place}: pmax {most.tolist()}, pmin {least.tolist()}, psum {total.tolist()}, jnp.max {jnp.max(values)}")
    holds &= (most == rest.max()).all() and (least == rest.min()).all() and np.isnan(total).all() and bool(jnp.isnan(jnp.max(values)))
raise SystemExit(not holds)
EOF
