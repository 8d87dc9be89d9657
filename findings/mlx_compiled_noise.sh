#!/usr/bin/env bash
# A compiled MLX function draws the same noise in each call
#
# Version: mlx 0.32.4
# Belief: `mx.compile` makes a function faster, and its draws from the global stream go on as before.
# Seen: The key of the first call is a constant of the compiled function: three calls give one noise, also after another
#   `mx.random.seed`, and the global stream does not move. With `inputs=mx.random.state, outputs=mx.random.state`, or a key as an
#   argument, draws are new.
# Means: Every generation evaluates the same directions, so a search moves along them alone; and two seeds give one run. Pass
#   keys.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
from functools import partial

import mlx.core as mx

mx.set_default_device(mx.cpu)
member = lambda centre: centre + mx.random.normal((3,))
compiled, told = mx.compile(member), partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)(member)
seen = {}
for name, function in (("plain", member), ("compiled", compiled), ("compiled with the state", told)):
    mx.random.seed(0)
    calls = [tuple(function(mx.zeros(3)).tolist()) for _ in range(3)]
    mx.random.seed(1)
    calls.append(tuple(function(mx.zeros(3)).tolist()))
    seen[name] = len(set(calls))
print("different noises in three calls and one by another seed:", seen)
raise SystemExit(seen != {"plain": 4, "compiled": 1, "compiled with the state": 4})
EOF
