#!/usr/bin/env bash
# After one load with assign=True a state dict is assigned by every later load
#
# Version: torch 2.14.1
# Belief: load_state_dict copies numbers into a module; assign=True is a choice of that one call.
# Seen: The first load with assign=True leaves a mark in the dict's metadata. The next plain load_state_dict of that dict
#   assigns too: both modules hold the same memory, and a step of one moves the other. Tied weights of the second module are
#   untied as well.
# Means: Members made from one checkpoint that was read once are one member, with no word. Copy the dict without its
#   metadata, or read the file for each.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn

saved = {key: value.clone() for key, value in nn.Linear(3, 1).state_dict().items()}
state = nn.Linear(3, 1).state_dict()  # a dict with metadata, as torch.load gives it
before, first, second, plain = (nn.Linear(3, 1) for _ in range(4))
before.load_state_dict(state)
first.load_state_dict(state, assign=True)
second.load_state_dict(state)
plain.load_state_dict(saved)
shares = [one.weight.data_ptr() == first.weight.data_ptr() for one in (before, second, plain)]
print(f"shares memory with the assigned module: loaded before {shares[0]}, after {shares[1]}, from a plain dict {shares[2]}")
value = second.weight[0, 0].item()
with torch.no_grad():
    first.weight += 1
print(f"a weight of the module that was loaded plainly: {value:.3f}, after a step of the other {second.weight[0, 0].item():.3f}")
raise SystemExit(shares != [False, True, False] or second.weight[0, 0].item() == value)
EOF
