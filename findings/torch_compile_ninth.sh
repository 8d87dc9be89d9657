#!/usr/bin/env bash
# From the ninth kind of member on a compiled evaluation has other random numbers
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: A compiled function that cannot be compiled for an argument is slower, and computes the same.
# Seen: A function that takes the member's activation function is compiled for each of the first eight. Then `recompile_limit`
#   is reached, and one warning later the ninth and all others run in eager, whose `randn` has other numbers by the same seed:
#   the noise of members 1 to 8 is one, that of members 9 to 11 another.
# Means: In a search over architectures a member's fitness depends on how many kinds were evaluated before it in that process,
#   so a resumed run is another one. Draw outside of the compiled function, or set `fullgraph=True`, which raises instead.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 setuptools==84.2.1
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.nn import functional as F

torch.set_num_threads(1)
kinds = (torch.relu, torch.tanh, torch.sigmoid, F.gelu, F.silu, F.elu, F.softplus, F.mish, F.leaky_relu, torch.sin, torch.cos)


def member(x, activation):
    noise = torch.randn(5)
    return noise, activation(x + noise)


compiled, noises = torch.compile(member), []
for activation in kinds:
    torch.manual_seed(0)
    noises.append(compiled(torch.zeros(5), activation)[0])
torch.manual_seed(0)
eager = member(torch.zeros(5), torch.relu)[0]
same = [bool((noise == noises[0]).all()) for noise in noises]
print("noise by one seed is the first member's:", same)
raise SystemExit(same != [True] * 8 + [False] * 3 or not torch.equal(noises[-1], eager))
EOF
