#!/usr/bin/env bash
# torch's settings of float32 precision do not undo each other, so that products or convolutions stay rounded to bfloat16
#
# Version: torch 2.14.1, numpy 2.4.6; Intel Xeon with AMX (family 6, model 207)
# Belief: The last setting counts: set_float32_matmul_precision("highest") or fp32_precision = "ieee" gives float32 back.
# Seen: torch.backends.fp32_precision = "bf16" rounds products and convolutions. set_float32_matmul_precision("highest") then gives products back and leaves
#   convolutions rounded, and get_float32_matmul_precision says "highest". After set_float32_matmul_precision("medium") the setting
#   torch.backends.fp32_precision = "ieee" changes nothing: products stay rounded. An LSTM is never rounded.
# Means: A library that sets one of them decides over small noise in the other's layers, 0.3 % of a weight, where the getter denies it. Compare a product and a
#   convolution of 1 + 2**-12 with what they should be.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PROGRAM'
import sys

import torch
from torch.nn import functional as F


def rounded():
    """Return which of products and convolutions lose the last bits of 1 + 2**-12."""
    number = 1 + 2**-12
    x = torch.full((32, 16, 8, 8), number)
    values = {"product": (x.view(128, 256) @ x.view(128, 256).T, 256), "convolution": (F.conv2d(x, x[:16, :, :3, :3].contiguous()), 144)}
    return [name for name, (value, terms) in values.items() if float(value.flatten()[0]) < terms * number]


assert rounded() == []
for line in sys.argv[1].split(";"):
    exec(line.strip())
    print("   ", line.strip(), "->", rounded() or "exact")
print("get_float32_matmul_precision:", end=" ")
try:
    print(torch.get_float32_matmul_precision())
except RuntimeError as error:
    print("refuses,", str(error)[:60])
assert rounded() == sys.argv[2].split()
PROGRAM
if ! grep -qw amx_bf16 /proc/cpuinfo; then
    echo "cannot tell here: this processor has no AMX"
    exit 3
fi
highest='torch.set_float32_matmul_precision("highest")'
"$folder/venv/bin/python" -W ignore program.py "torch.backends.fp32_precision = 'bf16'" "product convolution"
"$folder/venv/bin/python" -W ignore program.py "torch.backends.fp32_precision = 'bf16'; $highest" "convolution"
"$folder/venv/bin/python" -W ignore program.py 'torch.set_float32_matmul_precision("medium"); torch.backends.fp32_precision = "ieee"' "product"
