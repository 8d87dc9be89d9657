#!/usr/bin/env bash
# Under MLX's vmap all members have the same noise, and the same dropout
#
# Version: mlx 0.32.4
# Belief: Members that draw from the global stream draw different numbers under `mx.vmap`, as in a loop.
# Seen: `mx.vmap` of a function that calls `mx.random.normal` without a key, and of `nn.Dropout`, draws once for all members,
#   without a word (torch's vmap refuses it unless `randomness` is given). In a loop the three members differ. With a key for
#   each member they differ under vmap too.
# Means: A population that is evaluated at once is one member, so all fitnesses tie and the mean stays or drifts. Split a key.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import mlx.core as mx
import mlx.nn as nn

mx.set_default_device(mx.cpu)
dropout = nn.Dropout(0.5)
centres, ones = mx.zeros((3, 8)), mx.ones((3, 64))
noisy, keyed = lambda centre: centre + mx.random.normal((8,)), lambda centre, key: centre + mx.random.normal((8,), key=key)
members = {
    "noise in a loop": [noisy(centre) for centre in centres],
    "noise under vmap": mx.vmap(noisy)(centres),
    "dropout in a loop": [dropout(row) for row in ones],
    "dropout under vmap": mx.vmap(dropout)(ones),
    "noise by keys under vmap": mx.vmap(keyed)(centres, mx.random.split(mx.random.key(0), 3)),
}
different = {name: len({tuple(member.tolist()) for member in values}) for name, values in members.items()}
print("different members of three:", different)
raise SystemExit(list(different.values()) != [3, 1, 3, 1, 3])
EOF
