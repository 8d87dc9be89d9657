#!/usr/bin/env bash
# The matmul precision that is suggested for GPUs rounds a CPU's float32 products to bfloat16, on some CPUs
#
# Version: torch 2.14.1, numpy 2.4.6; Intel Xeon with AMX (family 6, model 207)
# Belief: torch.set_float32_matmul_precision("medium") is about tensor cores, and a CPU's float32 stays float32.
# Seen: On a processor with AMX products of float32 matrices are 0.2 % off, those of attention too. Products of one row, or up
#   to 16 x 16 x 16, are not, nor are convolutions and LSTMs. With oneDNN limited to AVX512_BF16 nothing is rounded, and the
#   bits change all the same. "high" changes nothing. ONEDNN_DEFAULT_FPMATH_MODE=BF16 rounds convolutions instead.
# Means: Small noise is rounded away with the bits: for weights of 0.06 differences of mirrored pairs correlate by 0.87 with
#   the right ones at a sigma of 1e-4 and by 0.3 at 1e-5, on some nodes of a cluster alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import sys

import numpy as np
import torch
from torch.nn import functional as F

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=generator)


def error(function, *given):
    exact = function(*(x.double() for x in given))
    return float((function(*given) - exact).abs().max() / exact.abs().max())


x, weight, target = normal(64, 256), normal(256, 256) / 16, normal(64, 256)
cases = {
    "product": lambda: error(F.linear, x, weight),
    "one row": lambda: error(F.linear, x[:1], weight),
    "16 x 16 x 16": lambda: error(F.linear, x[:16, :16], weight[:16, :16]),
    "attention": lambda: error(F.scaled_dot_product_attention, *[x.view(1, 4, 64, 64)] * 3),
    "convolution": lambda: error(F.conv2d, x.view(64, 4, 8, 8), weight[:4, :36].reshape(4, 4, 3, 3)),
}
noise = [normal(256, 256) for _ in range(32)]


def pairs(sigma):
    losses = ((F.linear(x, weight + side * sigma * eps) - target).double().square().mean() for eps in noise for side in (1, -1))
    values = np.array([float(loss) for loss in losses]).reshape(-1, 2)
    return values[:, 0] - values[:, 1]


exact = {sigma: pairs(sigma) for sigma in (1e-2, 1e-3, 1e-4, 1e-5)}
rounded = {}
for precision in ("highest", "high", "medium"):
    torch.set_float32_matmul_precision(precision)
    rounded[precision] = {name for name, case in cases.items() if case() > 1e-4}
    print(f"{sys.argv[1]}, {precision}: rounded {sorted(rounded[precision])}, product {cases['product']():.1e} off")
correlations = {sigma: np.corrcoef(right, pairs(sigma))[0, 1] for sigma, right in exact.items()}
print("differences of pairs with 'medium' and right ones, by sigma:", {s: round(float(c), 2) for s, c in correlations.items()})
seen = rounded["medium"], bool(rounded["highest"] | rounded["high"]), correlations[1e-5] < 0.6
expected = {"AMX": ({"product", "attention"}, False, True), "limited": (set(), False, False)}
raise SystemExit(seen != expected[sys.argv[1]])
PROGRAM
if ! grep -qw amx_bf16 /proc/cpuinfo; then
    echo "cannot tell here: this processor has no AMX"
    exit 3
fi
"$folder/venv/bin/python" -W ignore "$folder/program.py" AMX
ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "$folder/venv/bin/python" -W ignore "$folder/program.py" limited
