#!/usr/bin/env bash
# One key has other numbers in jax 0.4 and in jax 0.10, in nearly every function
#
# Version: jax 0.4.35 and 0.10.2
# Belief: Keys are made so that a seed is the same numbers on every machine and in every version.
# Seen: `normal`, `uniform`, `randint`, `permutation` and `split` of key(0) differ; `fold_in` is the same. In 0.4 five numbers are not
#   the first five of eight, and in 0.10 they are. `jax_threefry_partitionable=False` brings the older numbers back.
# Means: Libraries of evolution strategies that were published with 0.4 do not repeat their curves with the pins that pip finds today, and
#   a run that is resumed after an update goes on with other noise. Pin jax with the seed, or set the flag.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
python3 -m venv "$folder/old"
"$folder/old/bin/pip" install --quiet jax==0.4.35 jaxlib==0.4.35 numpy==2.4.6
cat > "$folder/draws.py" <<'EOF'
import sys

import jax

if len(sys.argv) > 1:
    jax.config.update("jax_threefry_partitionable", False)
key = jax.random.key(0)
print([round(float(number), 6) for number in jax.random.normal(key, (5,))])
print([round(float(number), 6) for number in jax.random.normal(key, (8,))[:5]])
print(jax.random.permutation(key, 8).tolist(), jax.random.randint(key, (4,), 0, 100).tolist())
print(jax.random.key_data(jax.random.split(key)).tolist())
print(jax.random.key_data(jax.random.fold_in(key, 1)).tolist())
EOF
"$folder/old/bin/python" "$folder/draws.py" > "$folder/old.txt"
"$folder/venv/bin/python" "$folder/draws.py" > "$folder/new.txt"
"$folder/venv/bin/python" "$folder/draws.py" flag > "$folder/flag.txt"
echo "0.4.35, then 0.10.2: five normal numbers, the first five of eight, a permutation and integers, a split, fold_in"
cat "$folder/old.txt" "$folder/new.txt"
same=$(paste -d '|' "$folder/old.txt" "$folder/new.txt" | awk -F '|' '$1 == $2 { print NR }' | tr '\n' ' ')
echo "lines that are the same: $same"
[ "$same" = "5 " ] && cmp -s "$folder/old.txt" "$folder/flag.txt"
