#!/usr/bin/env bash
# Under torch.vmap a member's scalar parameter makes a half precision network a float32 one, in some operations
#
# Version: torch 2.14.1
# Belief: `vmap` over members computes for each what a loop over them does, in the same types.
# Seen: A scalar float32 parameter (a threshold, a slope) that is mapped over leaves `x * y` and `torch.maximum` in bfloat16, as in the
#   loop, but `where` and `clamp` are float32 under `vmap` and bfloat16 in the loop.
# Means: Scores of members in one call and one by one differ by the rounding of all that follows. Give scalar parameters the activations' type.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

x, scalars = torch.ones(2, 3, dtype=torch.bfloat16), torch.tensor([0.3, 0.7])
operations = {
    "product": lambda x, y: x * y,
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "clamp": lambda x, y: torch.clamp(x, max=y),
    "where, then a sum of 3": lambda x, y: torch.where(x > 2, x, y).sum(),
}
seen, values = {}, {}
for name, operation in operations.items():
    mapped = torch.func.vmap(operation)(x, scalars)
    looped = torch.stack([operation(row, scalar) for row, scalar in zip(x, scalars)])
    seen[name] = str(mapped.dtype)[6:], str(looped.dtype)[6:]
    values[name] = mapped.flatten()[0].item(), looped.flatten()[0].item()
    print(f"{name}: vmap {seen[name][0]}, loop {seen[name][1]}, first value {values[name]}")
same = [name for name, (mapped, looped) in seen.items() if mapped == looped]
other = [name for name, pair in seen.items() if pair == ("float32", "bfloat16")]
raise SystemExit(not (same == ["product", "maximum"] and len(other) == 3 and len(set(values["where, then a sum of 3"])) == 2))
EOF
