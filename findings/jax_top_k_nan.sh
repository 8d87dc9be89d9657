#!/usr/bin/env bash
# top_k takes a diverged member for the best, and one of two sorts as well
#
# Version: jax 0.10.2
# Belief: A NaN is last among the best: sorting puts it at the end, so the elite of k members is free of it while k are finite.
# Seen: top_k, approx_max_k and argsort(descending=True) put a NaN first, argsort(-fitness) puts it last. For fitnesses 1, NaN,
#   3, 2 the two best are members 1 and 2, or 2 and 3. argmax and argmin are both the NaN's.
# Means: Truncation selection by top_k has each diverged member among its parents, of a maximum; and a peer changes what it
#   selects when one idiom is written as the other. Replace NaN by -inf before anything is ranked.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jax==0.10.2
"$folder/venv/bin/python" - <<'EOF'
import jax
import jax.numpy as jnp

fitness = jnp.array([1.0, jnp.nan, 3.0, 2.0])
best = {
    "top_k": jax.lax.top_k(fitness, 2)[1],
    "approx_max_k": jax.lax.approx_max_k(fitness, 2)[1],
    "argsort(descending=True)": jnp.argsort(fitness, descending=True)[:2],
    "argsort(-fitness)": jnp.argsort(-fitness)[:2],
    "argsort()[::-1]": jnp.argsort(fitness)[::-1][:2],
}
best = {name: members.tolist() for name, members in best.items()}
for name, members in best.items():
    print(f"fitnesses 1, nan, 3, 2: the two best by {name} are members {members}")
ends = (int(jnp.argmax(fitness)), int(jnp.argmin(fitness)))
print(f"argmax and argmin: {ends}")
first = [members for name, members in best.items() if name != "argsort(-fitness)"]
raise SystemExit(first != [[1, 2]] * 4 or best["argsort(-fitness)"] != [2, 3] or ends != (1, 1))
EOF
