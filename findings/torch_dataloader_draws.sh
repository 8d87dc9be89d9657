#!/usr/bin/env bash
# Reading a DataLoader in order draws from the global generator
#
# Version: torch 2.14.1
# Belief: Without shuffling and without workers a DataLoader uses no random numbers, so noise drawn after a pass over the data
#   does not depend on the pass.
# Seen: Each iterator draws one number from the global generator for seeds of workers that do not exist: torch.randn differs
#   after zero, one and two passes. With a generator given to the loader, shuffled or not, the global one stays.
# Means: Perturbations drawn by the global generator depend on how many times members or a validation read the data, so an
#   added validation is another run, and ranks that read a different number of times draw different noise. Give loaders a
#   generator.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(8.0))


def noise(passes, **arguments):
    torch.manual_seed(0)
    loader = DataLoader(data, batch_size=4, **arguments)
    for _ in range(passes):
        list(loader)
    return tuple(torch.randn(3).tolist())


plain = [noise(passes) for passes in (0, 1, 2)]
own = [noise(passes, shuffle=True, generator=torch.Generator().manual_seed(3)) for passes in (0, 1, 2)]
for passes in range(3):
    print(f"first noise after {passes} passes: in order {plain[passes][0]:.4f}, shuffled by a generator {own[passes][0]:.4f}")
raise SystemExit(len(set(plain)) != 3 or len(set(own)) != 1)
EOF
