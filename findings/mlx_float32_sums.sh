#!/usr/bin/env bash
# On a CPU MLX adds float32 numbers one after the other: a mean of ten million is 9 % off, a variance 17,000 times
#
# Version: mlx 0.32.4
# Belief: A sum of float32 numbers has an error of some 1e-6, as in numpy and torch, which add by pairs.
# Seen: The mean of 10^7 numbers of 0.1 is 0.1088, `cumsum` ends there too, and that of float16 numbers is infinite. The variance
#   of a million numbers with deviation 1 around 10,000 is 17,139. numpy has 0.1 and 1.0.
# Means: Fitnesses of large populations and rewards with an offset are standardised by a deviation that is 130 times too large, so
#   steps vanish. Subtract an estimate of the mean first, or add up in numpy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
tenths = np.full(10_000_000, 0.1, np.float32)
around = (10_000 + np.random.default_rng(0).standard_normal(1_000_000)).astype(np.float32)
mean, last = mx.array(tenths).mean().item(), mx.cumsum(mx.array(tenths))[-1].item() / tenths.size
half, variance = mx.array(tenths.astype(np.float16)).mean().item(), mx.array(around).var().item()
print(f"mean of 10^7 tenths: {mean:.4f}, by cumsum {last:.4f}, in float16 {half}; numpy {tenths.mean():.4f}")
print(f"variance of 10^6 normal numbers around 10,000: {variance:.0f}; numpy {around.var():.4f}")
raise SystemExit(not (0.105 < mean < 0.112 and abs(last - mean) < 1e-6 and half == float("inf") and variance > 10_000))
EOF
