#!/usr/bin/env bash
# GELU of infinity is NaN in torch, or infinity, by how the tensor lies in memory
#
# Version: torch 2.14.1 on a CPU
# Belief: GELU of infinity is infinity, and of one tensor the values do not depend on its strides.
# Seen: It is NaN for two and more float32 or (with AVX-512) bfloat16 numbers that lie side by side. It is infinity for one number, for a column,
#   in float64 and float16 and with `approximate="tanh"`. GELU of minus infinity is NaN everywhere, where its limit is 0.
# Means: Whether a network that overflows has NaN or infinite outputs, and with that whether a rule for NaN meets it, depends on the batch and
#   its layout. Take both for diverged.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from torch.nn.functional import gelu

infinity = float("inf")
names = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float64: "float64"}
holds = True
for dtype, name in names.items():
    row = torch.full((8,), infinity, dtype=dtype)
    column = torch.full((8, 3), infinity, dtype=dtype)[:, 0]
    seen = [int(gelu(x, approximate=kind).isnan().sum()) for x, kind in ((row, "none"), (row[:1], "none"), (column, "none"), (row, "tanh"), (-row, "none"))]
    print(f"{name}: NaN of 8 in a row, of 1, of 8 in a column, of 8 by tanh, of 8 of minus infinity: {seen}")
    side = seen[0] if dtype == torch.bfloat16 else 8 * (dtype == torch.float32)  # bfloat16: with AVX-512
    holds &= seen == [side, 0, 0, 0, 8]
raise SystemExit(not holds)
PROGRAM
