#!/usr/bin/env bash
# A compiled uniform number in half precision can be 1, and an eager one never is
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `torch.rand` draws from [0, 1) in every type, compiled or not.
# Seen: Inductor draws in float32 and rounds. Of a million compiled bfloat16 numbers 1,900 are 1.0 and none is 0; in float16
#   240 are. Eager gives none that is 1, and as many zeros. In float32 neither has a 1. `(u * 8).long()`, taken of what was
#   returned, is 8 in 1,900 of the million.
# Means: An index drawn so is out of range now and then, a class of probability 1 is missed by `rand < p`, `log(1 - u)` is
#   infinite, and only after the function was compiled. Draw in float32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 setuptools==84.2.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch

torch.set_num_threads(1)
seen = {}
for kind in (torch.bfloat16, torch.float16, torch.float32):

    def draw(number):
        return torch.rand(number, dtype=kind)

    torch._dynamo.reset()
    for name, function in (("eager", draw), ("compiled", torch.compile(draw))):
        torch.manual_seed(0)
        uniform = function(1_000_000)
        seen[kind, name] = int((uniform == 1).sum()), int((uniform == 0).sum()), int(((uniform * 8).long() == 8).sum())
        print(kind, name, "ones, zeros and indices of 8 in a million:", *seen[kind, name])
halves = (torch.bfloat16, torch.float16)
raise SystemExit(
    any(seen[kind, "eager"][0] or not seen[kind, "compiled"][0] or seen[kind, "compiled"][1] for kind in halves)
    or not 1500 < seen[torch.bfloat16, "compiled"][0] < 2400
    or seen[torch.float32, "compiled"][0]
    or not seen[torch.bfloat16, "compiled"][2]
)
EOF
