#!/usr/bin/env bash
# A checkpointed block that draws from its own generator has the gradient of another noise
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: `torch.utils.checkpoint` computes a block again in the backward pass with the random numbers of the forward pass.
# Seen: The state of the global generator alone is put back. A block that draws with `generator=` draws the next numbers in
#   the backward pass: the loss is one noise's and the gradient another's, with `use_reentrant` and without, and no word is
#   said. By the global generator both agree.
# Means: A noisy layer with a stream of its own, which is what makes runs repeatable, trains on gradients that belong to no
#   loss that was seen. Draw outside of the block and pass the noise in.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.utils.checkpoint import checkpoint

right = {}
for own in (False, True):
    for reentrant in (False, True):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(0) if own else None
        drawn, weight = [], torch.ones(5, requires_grad=True)

        def block(weight):
            drawn.append(torch.randn(5, generator=generator))
            return (weight * drawn[-1]).sum()

        checkpoint(block, weight, use_reentrant=reentrant).backward()
        right["own generator" if own else "global generator", f"use_reentrant={reentrant}"] = torch.equal(weight.grad, drawn[0])
print("gradient is that of the noise of the forward pass:", right)
raise SystemExit(list(right.values()) != [True, True, False, False])
EOF
