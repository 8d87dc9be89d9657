#!/usr/bin/env bash
# With peft's defaults an orthogonal adapter is not orthogonal, and noise of 0.2 makes a weight six times larger
#
# Version: peft 0.21.2, torch 2.14.1
# Belief: OFT turns the pretrained weights, so whatever is added to its parameters the singular values stay.
# Seen: By default (`use_cayley_neumann=True`) the inverse in the rotation is a series of five terms. Noise of 0.02 keeps the weight's norm
#   to 0.1 %, 0.1 changes it by a tenth, 0.2 makes it six times and 0.5 two hundred times larger, with blocks of 32. More terms make it worse:
#   ten have a factor of 700,000. With `use_cayley_neumann=False` singular values stay to 1e-6 at any size of noise.
# Means: Members of an evolution strategy are no rotations from a sigma of 0.1 on, and their outputs explode. Set `use_cayley_neumann=False`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from peft import OFTConfig, get_peft_model
from torch import nn


def ratio(sigma, **options):
    """Norm of the merged weight by that of the pretrained one, and the largest relative change of a singular value."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(32, 32, bias=False))
    before = torch.linalg.svdvals(network[0].weight.detach().double())
    model = get_peft_model(network, OFTConfig(oft_block_size=32, target_modules=["0"], **options)).eval()
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(sigma * torch.randn(parameter.shape, generator=noise))
    after = torch.linalg.svdvals(model.merge_and_unload()[0].weight.detach().double())
    return float(after.norm() / before.norm()), float(((after - before).abs() / before[0]).max())


WAYS = {"defaults": {}, "ten terms": {"num_cayley_neumann_terms": 10}, "exact inverse": {"use_cayley_neumann": False}}
seen = {(name, sigma): ratio(sigma, **options) for name, options in WAYS.items() for sigma in (0.02, 0.1, 0.2, 0.5)}
for (name, sigma), (norm, value) in seen.items():
    print(f"{name}, noise of {sigma}: the weight's norm is {norm:.4g} times the pretrained one, singular values off by {value:.1e}")
small = abs(seen["defaults", 0.02][0] - 1) < 2e-3 and abs(seen["defaults", 0.1][0] - 1) > 0.05
large = seen["defaults", 0.2][0] > 3 and seen["defaults", 0.5][0] > 100 and seen["ten terms", 0.5][0] > 1e5
raise SystemExit(not (small and large and all(seen["exact inverse", sigma][1] < 1e-5 for sigma in (0.02, 0.1, 0.2, 0.5))))
PROGRAM
