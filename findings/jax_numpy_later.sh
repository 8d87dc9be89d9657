#!/usr/bin/env bash
# A jitted fitness reads its numpy population after the call has returned
#
# Version: jax 0.10.2, jaxlib 0.10.2, numpy 2.4.6, on a CPU
# Belief: A function that was called has its arguments: a numpy array may be filled with the next generation while a result is
#   awaited.
# Seen: On a CPU a call returns before it has run, and a numpy array of 9 MB is not copied for it: filled with other numbers
#   right after the call, the result is that of the new ones, or of a mix. jnp.array copies, but later too: under load one of
#   five results was another. device_put shares its memory for good where it begins at a multiple of 64 bytes, and numpy's
#   allocation decides that, so that one of two arrays of equal size changes with its source.
# Means: A loop that perturbs one buffer in place scores members with the next one's weights, in silence, and more so the more
#   work a fitness has. Hand over jnp.array(buffer).block_until_ready(), or wait for the result before the buffer is written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import jax
import jax.numpy as jnp
import numpy as np

weights = jnp.asarray(np.random.default_rng(0).standard_normal((1500, 1500)) / 40, jnp.float32)


@jax.jit
def fitness(member):
    for _ in range(30):
        member = jnp.tanh(member @ weights)
    return member.sum()


def filled_after(copy):
    buffer = np.ones((1500, 1500), np.float32)
    awaited = fitness(copy(buffer))
    buffer[:] = -2
    return float(awaited)


right = float(fitness(np.ones((1500, 1500), np.float32)))
plain = [filled_after(lambda buffer: buffer) for _ in range(5)]
copied = [filled_after(lambda buffer: jnp.array(buffer).block_until_ready()) for _ in range(5)]
print(f"fitness {right:.1f}; buffer written after the call: {[round(one, 1) for one in plain]}")
print(f"with jnp.array(buffer).block_until_ready(): {[round(one, 1) for one in copied]}")

shared = {}
memory = np.zeros(2000, np.float32)
for offset in (0, 1):
    begin = (-memory.ctypes.data % 64) // 4 + offset
    part = memory[begin : begin + 1000]
    device = jax.device_put(part).block_until_ready()
    part[0] = 1 + offset
    shared[offset] = bool(device[0] == part[0])
print(f"device_put shares memory: at a multiple of 64 bytes {shared[0]}, 4 bytes further {shared[1]}")
wrong = sum(abs(one - right) > 1 for one in plain)
raise SystemExit(not (wrong and all(abs(one - right) < 1 for one in copied) and shared == {0: True, 1: False}))
EOF
JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/program.py"
