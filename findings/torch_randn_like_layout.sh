#!/usr/bin/env bash
# Noise for a channels_last weight has other numbers at the same places
#
# Version: torch 2.14.1; AMD Zen 4, Intel Xeon with AMX
# Belief: A layout is a matter of speed: randn_like of one seed gives equal tensors the same noise.
# Seen: randn_like, rand_like and normal_ fill memory in its order. For a convolution in channels_last, or for a weight that
#   is a transpose, no number stands where it does for the contiguous one; torch.randn of the shape does not depend on it.
# Means: .to(memory_format=torch.channels_last) for speed makes another run of the same seed, and a worker that loaded its
#   weights in another layout rebuilds a perturbation that nobody evaluated. Draw with torch.randn(weight.shape) and add.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch

convolution, matrix = torch.zeros(8, 4, 3, 3), torch.zeros(16, 8)
pairs = {
    "channels_last": (convolution, convolution.to(memory_format=torch.channels_last)),
    "transpose": (matrix, torch.zeros(8, 16).t()),
}
draws = {
    "randn_like": torch.randn_like,
    "rand_like": torch.rand_like,
    "normal_": lambda weight: weight.clone().normal_(),
    "randn of the shape": lambda weight: weight + torch.randn(weight.shape),
}
same = {}
for name, weights in pairs.items():
    for draw, function in draws.items():
        noise = []
        for weight in weights:
            torch.manual_seed(0)
            noise.append(function(weight))
        same[name, draw] = (noise[0] == noise[1]).float().mean().item()
        print(f"{name}, {draw}: {same[name, draw]:.0%} of the numbers at the same places")
raise SystemExit(not all((value == 1) if draw == "randn of the shape" else (value < 0.2) for (_, draw), value in same.items()))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
