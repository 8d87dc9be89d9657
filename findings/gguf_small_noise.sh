#!/usr/bin/env bash
# Small noise on a 4-bit or 5-bit GGUF weight rescales its blocks instead of adding the noise
#
# Version: gguf 0.19.0, numpy 2.4.6
# Belief: Noise far below the step of the format changes few numbers (those near a boundary), each in the noise's direction:
#   stochastic rounding of a kind.
# Seen: A block of 32 takes its scale from its largest number, so the noise of that one number moves all of them. Noise of a
#   hundredth of the weights (a 25th of the step) changes 82 % of the numbers of Q4_0 and 97 % of Q4_1, and what is added has a
#   correlation of 0.07
#   with the noise. In Q8_0 it is 0.9 or more. Quantising what was dequantised is exact in all of them.
# Means: Evolution strategies on requantised weights evaluate members that are not the centre plus their noise, so the sum of
#   utilities times noise estimates little. Perturb outside of the format (an adapter, a scale of each block), or in Q8_0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet gguf==0.19.0 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

weights = 0.05 * np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
noise = 0.005 * np.random.default_rng(1).standard_normal(weights.shape).astype(np.float32)
holds = True
for form, scale in ((Type.Q4_0, 0.1), (Type.Q4_1, 0.1), (Type.Q5_0, 0.1), (Type.Q8_0, 0.1)):
    centre = dequantize(quantize(weights, form), form)
    again = dequantize(quantize(centre, form), form)
    added = dequantize(quantize(centre + scale * noise, form), form) - centre
    changed, correlation = float((added != 0).mean()), float(np.corrcoef(added.ravel(), noise.ravel())[0, 1])
    print(f"{form.name}: {changed:.0%} of the numbers change, correlation with the noise {correlation:.2f}")
    holds &= np.array_equal(again, centre) and (correlation > 0.8 if form is Type.Q8_0 else changed > 0.7 and correlation < 0.15)
raise SystemExit(not holds)
EOF
