#!/usr/bin/env bash
# A deep copy of a scripted module trains the original
#
# Version: torch 2.14.1
# Belief: copy.deepcopy gives an independent module whose parameters are leaves, as for every other module.
# Seen: The copy of a scripted or traced module has parameters with is_leaf False, results of a clone that autograd recorded. An
#   optimizer refuses them; backward through the copy leaves its gradients None and adds them to the original's parameters.
# Means: A target network, a best-so-far copy or a member for a gradient step that was copied from a scripted policy sends its
#   gradients to the centre. Copy under torch.no_grad(), or load a state_dict into a new module.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import copy

import torch

module, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
holds = True
for name, scripted in (("script", torch.jit.script(module)), ("trace", torch.jit.trace(module, x))):
    scripted.zero_grad()
    copied = copy.deepcopy(scripted)
    leaves = [p.is_leaf for p in copied.parameters()]
    copied(x).sum().backward()
    reached = scripted.weight.grad is not None
    with torch.no_grad():
        inside = [p.is_leaf for p in copy.deepcopy(scripted).parameters()]
    print(f"{name}: leaves of the copy {leaves}, under no_grad {inside}; its backward reached the original: {reached}")
    holds &= not any(leaves) and reached and all(inside)
plain = [p.is_leaf for p in copy.deepcopy(module).parameters()]
print("copy of an ordinary module:", plain)
raise SystemExit(not (holds and all(plain)))
EOF
