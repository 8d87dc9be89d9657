#!/usr/bin/env bash
# Whether a bfloat16 network overflows, and whether its smallest weights count, depends on the processor's instructions
#
# Version: torch 2.14.1, numpy 2.4.6; Intel Xeon with AMX (family 6, model 207)
# Belief: bfloat16 products are summed in float32 on every CPU, so that processors differ in last bits alone.
# Seen: One layer of 512 x 512 has other bits by AMX, AVX512_BF16, AVX-512 and AVX2 (ONEDNN_MAX_CPU_ISA). 3e38 + 3e38 - 3e38 is
#   3e38 by AMX and AVX2 and infinity by both others; with the last two terms exchanged it is the other way round for all.
#   Numbers below 1.2e-38 are 0 by AMX and AVX512_BF16 and count by the others.
# Means: A member that diverges is thrown out on one node and has an ordinary fitness on another. Scores of bfloat16 members
#   compare between nodes of one kind of processor.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'PROGRAM'
import hashlib

import torch
from torch.nn import functional as F

torch.set_num_threads(1)
x, weight = (torch.randn(n, 512, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (64, 512))
digest = hashlib.sha256(F.linear(x, weight).view(torch.int16).numpy().tobytes()).hexdigest()[:8]


def summed(a, b):
    x, weight = torch.zeros(64, 512), torch.zeros(64, 512)
    x[0, : len(a)], weight[0, : len(b)] = torch.tensor(a), torch.tensor(b)
    return float(F.linear(x.bfloat16(), weight.bfloat16())[0, 0])


ones = [1.0, 1.0, 1.0]
overflows = [summed(terms, ones) == torch.inf for terms in ([3e38, 3e38, -3e38], [3e38, -3e38, 3e38])]
print(digest, *overflows, summed([1e-39], [1e10]) == 0)
PROGRAM
if ! grep -qw amx_bf16 /proc/cpuinfo; then
    echo "cannot tell here: this processor has no AMX"
    exit 3
fi
for limit in DEFAULT AVX512_CORE_BF16 AVX512_CORE AVX2; do
    ONEDNN_MAX_CPU_ISA=$limit "$folder/venv/bin/python" -W ignore "$folder/program.py" >"$folder/$limit"
    echo "$limit: bits, a + a - a infinite, a - a + a infinite, small is 0: $(cat "$folder/$limit")"
done
cd "$folder"
[ "$(cut -d' ' -f1 DEFAULT AVX512_CORE_BF16 AVX512_CORE AVX2 | sort -u | wc -l)" = 4 ]
[ "$(cut -d' ' -f2- DEFAULT)" = "False True True" ]
[ "$(cut -d' ' -f2- AVX512_CORE_BF16)" = "True False True" ]
[ "$(cut -d' ' -f2- AVX512_CORE)" = "True False False" ]
[ "$(cut -d' ' -f2- AVX2)" = "False True False" ]
