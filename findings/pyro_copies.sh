#!/usr/bin/env bash
# A deep copy of a Pyro module takes back the parameters of the module that was called first
#
# Version: pyro-ppl 1.9.2, torch 2.14.1
# Belief: copy.deepcopy of a module gives a member of its own: write its parameters, call it, and its outputs are theirs.
# Seen: The first call of a module puts the Parameter behind a PyroParam into a global store, by name. A call of a copy finds
#   another object there, and sets the copy's attribute to it: the written 5.0 is 0.0 again, and all copies share one Parameter.
#   Plain parameters of the same module stay the copy's. In pyro.settings.context(module_local_params=True) all stay.
# Means: Members that are copies of a Pyro module compute with the constrained parameters of one of them, and evolution of these
#   is a random walk. Score one module that is written again for each member, or set module_local_params.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 pyro-ppl==1.9.2
cat >"$folder/program.py" <<'EOF'
import copy

import pyro
import torch
from pyro.nn import PyroModule, PyroParam
from torch.distributions import constraints


class Scale(PyroModule):
    def __init__(self):
        super().__init__()
        self.scale = PyroParam(torch.tensor(1.0), constraint=constraints.positive)
        self.shift = torch.nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        return self.scale * x + self.shift


def outcome():
    pyro.clear_param_store()
    first = Scale()
    first(torch.tensor(1.0))
    member = copy.deepcopy(first)
    with torch.no_grad():
        member.scale_unconstrained.fill_(5.0)
        member.shift.fill_(0.5)
    made = float(member(torch.tensor(1.0)))
    return made, float(member.scale_unconstrained), member.scale_unconstrained is first.scale_unconstrained


stored = outcome()
with pyro.settings.context(module_local_params=True):
    local = outcome()
print(f"a copy with log-scale 5 and shift 0.5, called: {stored[0]}, its log-scale then: {stored[1]}, the first one's: {stored[2]}")
print(f"with module_local_params: {local[0]:.2f}, {local[1]}, {local[2]}")
raise SystemExit(not (stored == (1.5, 0.0, True) and local[1:] == (5.0, False) and local[0] > 148))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
