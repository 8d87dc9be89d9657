#!/usr/bin/env bash
# split(key, n)[i] is fold_in(key, i)
#
# Version: jax 0.10.2 (CPU), the default generator
# Belief: split and fold_in make unrelated children of a key; programs split for the next step and fold in a number for a
#   member.
# Seen: The i-th of any split is fold_in(key, i), and split(key, 4) is the start of split(key, 8).
# Means: A loop that does `key, sub = split(key)` and fold_in(old_key, generation) uses streams twice: the noise of generation
#   1 is what `sub` draws. Use one of the two for one key.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" - <<'EOF'
import jax

data = jax.random.key_data
key = jax.random.key(1)
children = data(jax.random.split(key, 8)).tolist()
folded = [data(jax.random.fold_in(key, i)).tolist() for i in range(8)]
print("split(key, 8)[3]", children[3], "fold_in(key, 3)", folded[3])
print("split(key, 4) is the start of split(key, 8):", data(jax.random.split(key, 4)).tolist() == children[:4])
raise SystemExit(children != folded)
EOF
