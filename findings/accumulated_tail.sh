#!/usr/bin/env bash
# The last update of an epoch is too small in accelerate, and in optax it waits for the next epoch
#
# Version: accelerate 1.15.0, optax 0.2.8, jax 0.10.2, torch 2.14.1, numpy 2.4.6
# Belief: With gradients accumulated over 4 of 6 batches the second update is the mean of the two batches that are left.
# Seen: With a gradient of 1 in each batch and a rate of 1 accelerate's two updates are 1 and 0.5: it divides by 4 and steps at the end of
#   the loader. optax's `MultiSteps` steps by 1 after 4 batches, and by 1 after two batches of the next epoch: an evaluation after the
#   first epoch does not have the tail, and the last two batches of a run are lost.
# Means: Two loops with the same words train on other gradients, by 25 % of an epoch here, where batches are no multiple of the
#   accumulation. Drop the last incomplete group, or weight it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet accelerate==1.15.0 optax==0.2.8 jax==0.10.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import jax.numpy as jnp
import optax
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
loader = torch.utils.data.DataLoader(torch.ones(6, 1), batch_size=1)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), loader)
weights = []
for _ in range(2):
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).mean())
            optimizer.step()
            optimizer.zero_grad()
        weights.append(-float(model.weight))
print("accelerate, two epochs of six batches:", weights)
transform = optax.MultiSteps(optax.sgd(1.0), 4)
here = jnp.zeros(1)
state, steps = transform.init(here), []
for _ in range(12):
    change, state = transform.update(jnp.ones(1), state, here)
    here = optax.apply_updates(here, change)
    steps.append(-float(here[0]))
print("optax, the same:", steps)
raise SystemExit(weights != [0, 0, 0, 1, 1, 1.5, 1.5, 1.5, 1.5, 2.5, 2.5, 3] or steps != [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3])
EOF
