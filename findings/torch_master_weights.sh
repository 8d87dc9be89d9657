#!/usr/bin/env bash
# An optimizer's float32 copies of bfloat16 weights are rounded to bfloat16 by a resume
#
# Version: torch 2.14.1
# Belief: `load_state_dict` puts an optimizer's state back as it was saved.
# Seen: Each tensor of the state but `step` gets the type of its parameter: a float32 master copy of 1.0001 is 1.0 in bfloat16
#   after the resume, and the optimizer goes on in bfloat16; a float64 sum becomes float32, and bfloat16 momentum of float32
#   weights float32.
# Means: A resumed run loses the bits for which the copies were made, and small steps from then on; its curve bends at the
#   restart. Put the tensors into `optimizer.state` afterwards, or make the copies parameters.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn


class Masters(torch.optim.Optimizer):
    """SGD on copies in another type, which are rounded into the parameters."""

    def __init__(self, parameters, kind):
        super().__init__(parameters, {"lr": 1e-4})
        self.kind = kind

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            master = self.state[parameter].setdefault("master", parameter.to(self.kind, copy=True))
            master += 1e-4
            parameter.copy_(master)


seen = []
for weights, kind in ((torch.bfloat16, torch.float32), (torch.float32, torch.float64), (torch.float32, torch.bfloat16)):
    parameter = nn.Parameter(torch.ones(1, dtype=weights))
    first, second = Masters([parameter], kind), Masters([parameter], kind)
    first.step()
    second.load_state_dict(first.state_dict())
    before, after = (each.state[parameter]["master"] for each in (first, second))
    print(f"{weights} weights, state {before.dtype} {before.item():.10f}; after load_state_dict {after.dtype} {after.item():.10f}")
    seen.append(after.dtype == weights)
    last = (before.item(), after.item()) if len(seen) == 1 else last
raise SystemExit(not (all(seen) and last[0] > 1 == last[1]))
EOF
