#!/usr/bin/env bash
# Orthogonal initial weights depend on the number of threads
#
# Version: torch 2.14.1, numpy 2.4.6; AMD Zen 4, Intel Xeon with AMX
# Belief: Initial weights are a function of the seed: random numbers are drawn in order on any number of threads.
# Seen: orthogonal_ draws normal numbers and decomposes them by LAPACK: 300 x 300 weights differ in their last bits between
#   one thread and two, 1e-6 apart. Normal, uniform and Xavier weights have the same bits.
# Means: The usual initial weights of policies make a run another one on another machine, under another number of ranks a
#   machine, or in a container with another quota. Create networks on one thread.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch import nn


def weights(name, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    return getattr(nn.init, name)(torch.empty(300, 300))


same = {}
for name in ("orthogonal_", "normal_", "uniform_", "xavier_uniform_", "trunc_normal_"):
    one, two = weights(name, 1), weights(name, 2)
    same[name] = torch.equal(one, two)
    print(f"{name}: same bits with 1 and 2 threads {same[name]}, greatest difference {(one - two).abs().max():.1e}")
raise SystemExit(same.pop("orthogonal_") or not all(same.values()))
EOF
