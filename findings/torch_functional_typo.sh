#!/usr/bin/env bash
# functional_call takes a weight under a wrong name, and evaluates the centre
#
# Version: torch 2.14.1
# Belief: `functional_call(net, weights, x)` refuses a name that the module does not have.
# Seen: Where the module before the last point exists, another last part is taken without a word and has no effect: `0.weights`
#   for `0.weight`, or `weight` for a Sequential. With `strict=True` it is an error; only a missing submodule raises by default.
# Means: Members whose noise is under names of another version of a network (`gamma` for `weight`, `lora_A` for `lora_A.weight`)
#   are all the centre. Give `strict=True`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn
from torch.func import functional_call

net, x, zeros = nn.Sequential(nn.Linear(3, 2)), torch.ones(1, 3), torch.zeros(2, 3)
seen = {}
for name in ("0.weight", "0.weights", "weight", "1.weight"):
    try:
        seen[name] = "as before" if torch.equal(functional_call(net, {name: zeros}, (x,)), net(x)) else "changed"
    except (AttributeError, RuntimeError) as error:
        seen[name] = type(error).__name__
try:
    functional_call(net, {"0.weights": zeros}, (x,), strict=True)
    strict = "taken"
except RuntimeError:
    strict = "refused"
print("outputs with a weight of zeros under each name:", seen, "| 0.weights with strict=True:", strict)
raise SystemExit((list(seen.values()), strict) != (["changed", "as before", "as before", "AttributeError"], "refused"))
EOF
