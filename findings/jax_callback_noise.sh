#!/usr/bin/env bash
# A noisy simulator that is called in each step of a scan is called once
#
# Version: jax 0.10.2, numpy 2.4.6
# Belief: `pure_callback` calls the host's function each time the compiled loop comes to it.
# Seen: Where its arguments do not change from step to step a jitted `scan` of five steps calls it once and has one number
#   five times, a `fori_loop` likewise; `vmap` over four members with an argument that is not mapped calls it once; a call
#   with an unused result does not happen. Eager calls three times where jit calls twice. With `io_callback`, and with the
#   step's number among the arguments, each step has its own number.
# Means: Repeated evaluations that are to average out the noise of one member are one evaluation, with a deviation of 0. Pass
#   a key or the step, or use `io_callback`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

random, shape = np.random.default_rng(0), jax.ShapeDtypeStruct((), jnp.float32)
calls = 0


def simulate(*arguments):
    global calls
    calls += 1
    return np.float32(random.normal())


def repeat(body):
    return jax.jit(lambda x: jax.lax.scan(lambda carry, step: (carry, body(x, step)), 0, jnp.arange(5))[1])


programs = {
    "scan": repeat(lambda x, step: jax.pure_callback(simulate, shape, x)),
    "scan with the step": repeat(lambda x, step: jax.pure_callback(simulate, shape, x, step)),
    "scan with io_callback": repeat(lambda x, step: io_callback(simulate, shape, x)),
    "vmap over four": lambda x: jax.vmap(lambda _: jax.pure_callback(simulate, shape, x, vmap_method="sequential"))(jnp.arange(4)),
}
seen = {}
for name, program in programs.items():
    calls = 0
    values = np.asarray(program(jnp.float32(1.0)))
    seen[name] = calls, len(set(values.tolist()))
    print(name, "calls and different numbers:", *seen[name])
raise SystemExit(list(seen.values()) != [(1, 1), (5, 5), (5, 5), (1, 1)])
EOF
