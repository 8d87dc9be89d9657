#!/usr/bin/env bash
# Under vmap jax's fast keys are not used: only the first member's key decides all members' noise
#
# Version: jax 0.10.2
# Belief: `vmap` of a draw over keys gives each member the numbers of its key, whichever generator is chosen.
# Seen: With `impl="rbg"` (and `unsafe_rbg`, both meant for speed) the first of six members has the numbers of its key alone, the other five
#   do not. Other keys in places 2 to 6 change nothing; another first key changes all. With the default generator each key decides.
# Means: A member's noise cannot be drawn again from its key, so an update that regenerates noise member by member follows other directions
#   than were evaluated; populations that share a first key are one population. Draw with threefry keys, or all in one call.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2 jaxlib==0.10.2
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax
import jax.numpy as jnp

draw = lambda key: jax.random.normal(key, (4,))
wanted = {"threefry2x32": (6, 1, 5), "rbg": (1, 6, 0), "unsafe_rbg": (1, 6, 0)}
seen = {}
for kind in wanted:
    keys, others = (jax.random.split(jax.random.key(seed, impl=kind), 6) for seed in (0, 1))
    batched = jax.vmap(draw)(keys)
    alone = jnp.stack([draw(key) for key in keys])
    first_only = jax.vmap(draw)(jnp.concatenate([keys[:1], others[1:]]))
    rest_only = jax.vmap(draw)(jnp.concatenate([others[:1], keys[1:]]))
    seen[kind] = tuple(int((rows == batched).all(axis=1).sum()) for rows in (alone, first_only, rest_only))
    print(f"{kind}: of 6 members {seen[kind][0]} as alone; unchanged by five other keys {seen[kind][1]}, by another first key {seen[kind][2]}")
raise SystemExit(seen != wanted)
EOF
