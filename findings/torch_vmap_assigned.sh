#!/usr/bin/env bash
# Under `vmap` a state that a network assigns is forgotten from call to call, and one that it shares moves once for all members
#
# Version: torch 2.14.1, `functional_call` with and without `vmap`
# Belief: `vmap` of `functional_call` over members is the loop over members: buffers that the pass changes are in the dict afterwards.
# Seen: Without vmap the dict that is handed to `functional_call` has the new buffers after the call, whether the pass wrote
#   `self.h.add_(1)` or `self.h = self.h + 1`. Under vmap the first one is there and the second is lost: after three calls members stand
#   at 1 in place of 3. Where the buffers are not handed over, three members of a loop move the module's own three times, so that each
#   starts where the one before ended, and vmap moves it once.
# Means: Recurrent, spiking and normalised members that keep a state by assignment begin anew in each step of an episode when a
#   population is evaluated at once. Return the state, or write in place.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch import nn
from torch.func import functional_call, vmap


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("written", torch.zeros(1))
        self.register_buffer("assigned", torch.zeros(1))

    def forward(self, x):
        self.written.add_(1)
        self.assigned = self.assigned + 1
        return x * self.weight + self.written + 10 * self.assigned


module, x = Counts(), torch.zeros(1)
alone = {"weight": torch.ones(1), "written": torch.zeros(1), "assigned": torch.zeros(1)}
members = {name: value.repeat(3, 1) for name, value in alone.items()}
for _ in range(3):
    one = functional_call(module, alone, (x,)).item()
    all_ = vmap(lambda member: functional_call(module, member, (x,)))(members).flatten().tolist()
print("third call of one member:", one, "states", alone["written"].item(), alone["assigned"].item())
print("third call of three under vmap:", all_, "states", members["written"][0].item(), members["assigned"][0].item())
weights, shared = {"weight": torch.ones(3, 1)}, Counts()
vmap(lambda member: functional_call(shared, member, (x,)))(weights)
looped = Counts()
outputs = [functional_call(looped, {"weight": torch.ones(1)}, (x,)).item() for _ in range(3)]
print("own buffers after three members: loop", looped.written.item(), looped.assigned.item(), outputs, "vmap", shared.written.item(), shared.assigned.item())
as_seen = one == 33 and all_ == [13.0] * 3 and members["written"][0] == 3 and members["assigned"][0] == 0
raise SystemExit(not (as_seen and looped.written == 3 and looped.assigned == 3 and shared.written == 1 and shared.assigned == 1))
EOF
"$folder/venv/bin/python" -W ignore program.py
