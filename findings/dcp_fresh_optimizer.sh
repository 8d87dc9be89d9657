#!/usr/bin/env bash
# A distributed checkpoint restores nothing of an optimizer that has not stepped yet
#
# Version: torch 2.14.1, torch.distributed.checkpoint
# Belief: `dcp.load` fills the dict that it is given with what was saved, and refuses what does not fit.
# Seen: It loads what the dict asks for: the state of a new Adam is an empty dict, which stays empty, while its learning rate of
#   0.5 becomes the saved 0.1. A name that the file lacks is an error; one that the dict lacks is not. `get_optimizer_state_dict`
#   makes the state first, and is right.
# Means: A resumed search has the rate of before and moments of zero, so its curve bends with no error. Take
#   `get_optimizer_state_dict`, and compare a step after a resume with one without.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict


def pair(rate):
    net = nn.Linear(2, 1)
    return net, torch.optim.Adam(net.parameters(), lr=rate)


net, adam = pair(0.1)
net(torch.ones(1, 2)).sum().backward()
adam.step()
dcp.save({"adam": adam.state_dict()}, checkpoint_id="plain", no_dist=True)
dcp.save({"adam": get_optimizer_state_dict(net, adam)}, checkpoint_id="named", no_dist=True)
fresh, resumed = pair(0.5)
state = {"adam": resumed.state_dict()}
dcp.load(state, checkpoint_id="plain", no_dist=True)
resumed.load_state_dict(state["adam"])
plain = len(resumed.state), resumed.param_groups[0]["lr"]
fresh, resumed = pair(0.5)
state = {"adam": get_optimizer_state_dict(fresh, resumed)}
dcp.load(state, checkpoint_id="named", no_dist=True)
set_optimizer_state_dict(fresh, resumed, state["adam"])
named = len(resumed.state), resumed.param_groups[0]["lr"]
print(f"parameters with moments, and rate: {plain} by state_dict, {named} by get_optimizer_state_dict; saved were ({len(adam.state)}, 0.1)")
raise SystemExit((plain, named) != ((0, 0.1), (2, 0.1)))
EOF
