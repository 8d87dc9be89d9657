#!/usr/bin/env bash
# torch's generator of a CPU reads 32 bits of a seed
#
# Version: torch 2.14.1
# Belief: manual_seed takes 64 bits, so random seeds of 63 bits for millions of members do not meet.
# Seen: Seeds that agree in their lower 32 bits give one stream on a CPU, while initial_seed() returns all 64. Of 200,000
#   random seeds of 62 bits several pairs do.
# Means: A run's seed plus k * 2**32 starts from the same weights and the same noise. Members that are named by random
#   64-bit seeds repeat each other from some ten thousand on; on a GPU, where all bits count, the same seeds do not.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import torch


def stream(seed):
    return tuple(torch.randn(4, generator=torch.Generator().manual_seed(seed)).tolist())


one, other = stream(5), stream(5 + 7 * 2**32)
print(f"seed 5: {one[0]:.4f}, seed 5 + 7 * 2**32: {other[0]:.4f}")
print(f"initial_seed of the second: {torch.Generator().manual_seed(5 + 7 * 2**32).initial_seed()}")
seeds = np.random.default_rng(0).integers(0, 2**62, 200_000)
low, first = {}, []
for seed in seeds.tolist():
    if seed % 2**32 in low:
        first.append((low[seed % 2**32], seed))
    low[seed % 2**32] = seed
same = sum(stream(a) == stream(b) for a, b in first)
print(f"200,000 random seeds: {len(first)} pairs share their lower bits, {same} of them their noise")
raise SystemExit(one != other or not first or same != len(first))
EOF
