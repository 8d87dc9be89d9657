#!/usr/bin/env bash
# In a Warp kernel -7 % 3 is -1 beside -7 // 3 = -3, and a NaN is clamped to a limit
#
# Version: warp-lang 1.19.0 (CPU), numpy 2.4.6
# Belief: A kernel that is written in Python computes what Python does, and a NaN stays one.
# Seen: `//` rounds down as in Python, and `%` is C's, of integers and floats, so that `a // b * b + a % b` is -10 for -7. `round` goes
#   away from zero at halves. `max`, `min` and `clamp` of a NaN are the other number or a limit, its sign is 1, and as an integer it is -2147483648.
# Means: Periodic positions and hashes are other ones for negative numbers, and a diverged world has observations in their range. Check
#   `isfinite` before a clamp.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet warp-lang==1.19.0 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import numpy as np
import warp as wp

wp.config.quiet = True
wp.config.kernel_cache_dir = "cache"


@wp.kernel
def integers(a: wp.array(dtype=int), found: wp.array2d(dtype=int)):
    i = wp.tid()
    found[i, 0] = a[i] // 3
    found[i, 1] = a[i] % 3
    found[i, 2] = a[i] // 3 * 3 + a[i] % 3


@wp.kernel
def floats(x: wp.array(dtype=float), found: wp.array2d(dtype=float)):
    i = wp.tid()
    found[i, 0] = x[i] % 3.0
    found[i, 1] = wp.round(x[i])
    found[i, 2] = wp.max(x[i], 1.0)
    found[i, 3] = wp.min(x[i], 1.0)
    found[i, 4] = wp.clamp(x[i], -1.0, 1.0)
    found[i, 5] = wp.sign(x[i])
    found[i, 6] = float(int(x[i]))


numbers, values = np.array([-7, 7, -1], np.int32), np.array([np.nan, -7.0, 2.5], np.float32)
of_numbers, of_values = wp.zeros((3, 3), dtype=int, device="cpu"), wp.zeros((3, 7), dtype=float, device="cpu")
wp.launch(integers, 3, inputs=[wp.array(numbers, device="cpu"), of_numbers], device="cpu")
wp.launch(floats, 3, inputs=[wp.array(values, device="cpu"), of_values], device="cpu")
seen, found = of_numbers.numpy(), of_values.numpy()
print("-7, 7, -1: // 3, % 3, both put together:", seen.tolist(), "| Python:", [[int(n) // 3, int(n) % 3, int(n)] for n in numbers])
print("NaN: % 3, round, max, min and clamp with 1, sign, as an integer:", found[0].tolist())
print("-7.0 % 3.0:", found[1, 0], "| 2.5 rounded:", found[2, 1])
holds = seen.tolist() == [[-3, -1, -10], [2, 1, 7], [-1, -1, -4]] and found[1, 0] == -1 and found[2, 1] == 3
raise SystemExit(not (holds and np.isnan(found[0, :2]).all() and found[0, 2:].tolist() == [1, 1, -1, 1, -(2**31)]))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py 2>&1 | grep -v "CUDA\|Module\|Warp\|Devices\|Kernel\|cache\|\"cpu\""
