#!/usr/bin/env bash
# In GGUF's MXFP4 a NaN or infinite weight makes its 32 neighbours 0, and none of them NaN
#
# Version: gguf 0.19.0, numpy 2.4.6
# Belief: A file keeps a NaN, or at least a NaN somewhere in the block.
# Seen: Of the kinds that `gguf.quants` writes Q4_0 to Q8_0, TQ1_0 and TQ2_0 make all numbers of the block NaN (or NaN and
#   infinite), BF16 and F16 that number alone. In MXFP4 the 32 numbers of the block are 0 for a NaN and for an infinity; a
#   weight of 1e8 is right and its 31 neighbours are 0.
# Means: A network that diverged is written as one that computes, with some weights missing, and a reader that looks for NaN
#   finds none. Look before the file is written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gguf==0.19.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import quants

seen = {}
for kind in (Kind.Q4_0, Kind.Q8_0, Kind.TQ2_0, Kind.BF16, Kind.MXFP4):
    for bad in (np.nan, np.inf):
        weight = np.random.default_rng(0).normal(size=(1, 256)).astype(np.float32)
        weight[0, 5] = bad
        read = quants.dequantize(quants.quantize(weight, kind), kind)[0]
        seen[kind.name, bad] = int((~np.isfinite(read)).sum()), int((read[:32] == 0).sum())
        print(kind.name, bad, "numbers that are not finite, zeros among its block of 32:", *seen[kind.name, bad])
first = [seen[kind, np.nan][0] for kind in ("Q4_0", "Q8_0", "TQ2_0", "BF16")]
raise SystemExit(first != [32, 32, 256, 1] or [seen["MXFP4", bad] for bad in (np.nan, np.inf)] != [(0, 32)] * 2)
EOF
