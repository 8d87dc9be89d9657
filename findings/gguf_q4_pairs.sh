#!/usr/bin/env bash
# Four-bit weights of one block: one of +1 and -1 comes back as 7/8
#
# Version: gguf 0.19.0, numpy 2.4.6
# Belief: Q4_0 has a scale and no offset, so it is symmetric: weights of equal size and opposite sign stay so.
# Seen: Its 16 levels go from -8 to 7 of the scale, and the scale takes the sign of the first largest weight: of a block with
#   1 and -1 the second comes back as -0.875. Q5_0 gives -0.9375, Q8_0 both.
# Means: Rounding depends on the sign of a block's largest weight: small noise on it can change the scale's sign and with it
#   all 32 weights, so a member differs from the centre by more than its noise. Score quantised members as such, and do not
#   expect the symmetric 4 bits of other libraries.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gguf==0.19.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize

block = np.zeros(32, np.float32)
block[:2] = 1, -1
back = {kind.name: dequantize(quantize(block, kind), kind)[:2].tolist() for kind in (Kind.Q4_0, Kind.Q5_0, Kind.Q8_0)}
for name, (first, second) in back.items():
    print(f"{name}: 1 and -1 come back as {first:.4f} and {second:.4f}")
raise SystemExit(back["Q4_0"] != [1, -0.875] or back["Q5_0"] != [1, -0.9375] or sum(back["Q8_0"]) != 0)
EOF
