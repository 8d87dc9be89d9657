#!/usr/bin/env bash
# `module.to(torch.float32)` takes the imaginary parts of complex weights, where `.float()` and `.half()` leave complex weights as they are
#
# Version: torch 2.14.1
# Belief: `.to(dtype)` casts floating weights, and leaves integers and complex numbers, as `.half()`, `.float()` and `.bfloat16()` do.
# Seen: `.to` with float32, float64, float16 or bfloat16 makes a complex parameter a real one and drops its imaginary part. torch says
#   it once in a process, at the first cast of any tensor; a second module is cast with no word. Integers stay. A network that is cast
#   to the type that its real weights have already is changed too.
# Means: A network with complex weights (state spaces, Fourier operators) that is moved by `.to(device, dtype)`, as training loops do,
#   is another network, with half of the numbers. Cast real parameters one by one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import warnings

import torch
from torch import nn


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1 + 2j]))
        self.real = nn.Parameter(torch.ones(1))
        self.register_buffer("count", torch.ones(1, dtype=torch.int64))


WAYS = {
    "to(float32)": lambda module: module.to(torch.float32),
    "to(float64)": lambda module: module.to(torch.float64),
    "to(bfloat16)": lambda module: module.to(torch.bfloat16),
    "to('cpu', float16)": lambda module: module.to("cpu", torch.float16),
    "float()": lambda module: module.float(),
    "double()": lambda module: module.double(),
    "half()": lambda module: module.half(),
    "bfloat16()": lambda module: module.bfloat16(),
}
lost, words = {}, []
for name, way in WAYS.items():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = way(Complex())
    lost[name] = not module.weight.is_complex()
    words.append(len(caught))
    print(f"{name}: {module.weight.data}, {module.real.dtype}, {module.count.dtype}, warnings {len(caught)}")
raise SystemExit(not (all(lost[name] == name.startswith("to(") for name in WAYS) and words == [1] + [0] * 7))
EOF
"$folder/venv/bin/python" program.py
