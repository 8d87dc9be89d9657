#!/usr/bin/env bash
# On Intel's AVX-512 MKL_CBWR=AUTO,STRICT gives a row the same bits in any batch, and without STRICT it does nothing
#
# Version: torch 2.14.1, numpy 2.4.6; Intel Xeon with AVX-512 (family 6, model 207)
# Belief: MKL_CBWR is for the same bits on other processors and threads, and costs much; the mode of the processor is enough.
# Seen: torch's float32 products of 1, 2 and 8 rows have other bits than the same rows among 64, from 512 inputs on. With
#   AUTO,STRICT they have the same, which AUTO, AVX512 and AVX2 do not give. It costs a tenth at 128 and less than a twentieth at
#   512; COMPATIBLE takes 5 times as long or more. On an AMD Zen 4 AUTO,STRICT leaves rows unlike.
# Means: A member's score is the same alone and in a shared pass by one variable, if all nodes are Intel's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import time

import torch
from torch.nn import functional as F

torch.set_num_threads(1)
differ = 0
for inputs, outputs in ((64, 64), (512, 512), (784, 100)):
    weight, x = (torch.randn(n, inputs, generator=torch.Generator().manual_seed(n)) for n in (outputs, 65))
    full = F.linear(x[:64], weight)
    differ += sum(not torch.equal(F.linear(x[:size], weight), full[:size]) for size in (1, 2, 8, 16, 17, 33))
took = []
for size in (128, 512):
    square, best = torch.randn(size, size), 1.0
    for _ in range(40):
        start = time.perf_counter()
        square @ square
        best = min(best, time.perf_counter() - start)
    took.append(f"{1e6 * best:.0f}")
print(differ, *took)
PROGRAM
if ! grep -q GenuineIntel /proc/cpuinfo || ! grep -qw avx512f /proc/cpuinfo; then
    echo "cannot tell here: this is no Intel processor with AVX-512"
    exit 3
fi
unset MKL_CBWR
for mode in none AUTO AUTO,STRICT AVX512 AVX2 COMPATIBLE; do
    if [ $mode = none ]; then words=(); else words=("MKL_CBWR=$mode"); fi
    env "${words[@]}" "$folder/venv/bin/python" -W ignore "$folder/program.py" >"$folder/$mode"
    echo "$mode: batches with other bits of 18, microseconds at 128 and 512: $(cat "$folder/$mode")"
done
for mode in none AUTO AVX512 AVX2 COMPATIBLE; do
    [ "$(cut -d' ' -f1 "$folder/$mode")" -gt 0 ]
done
[ "$(cut -d' ' -f1 "$folder/AUTO,STRICT")" = 0 ]
