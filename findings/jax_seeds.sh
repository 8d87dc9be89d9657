#!/usr/bin/env bash
# jax.random.key keeps 32 bits of a seed without a word
#
# Version: jax 0.10.2 (CPU)
# Belief: A seed that does not fit raises, or all of its bits count; other seeds give other keys.
# Seen: key(2**32 + 5) is key(5), key(2**40) is key(0), and key(-1) is key(2**32 - 1).
# Means: Seeds from a hash or a clock in nanoseconds meet more often than thought (32 bits), and peers on JAX with seed s and
#   s + 2**32 are one run, not two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" - <<'EOF'
import jax


def key(seed):
    return jax.random.key_data(jax.random.key(seed)).tolist()


pairs = [(2**32 + 5, 5), (2**40, 0), (-1, 2**32 - 1)]
for one, other in pairs:
    print(f"key({one}) {key(one)}, key({other}) {key(other)}")
raise SystemExit(not all(key(one) == key(other) for one, other in pairs))
EOF
