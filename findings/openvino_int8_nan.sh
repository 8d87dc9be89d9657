#!/usr/bin/env bash
# With int8 weights OpenVINO gives a diverged input ordinary outputs
#
# Version: openvino 2026.4.1, numpy 2.4.6; AMD Zen 4
# Belief: A NaN in the input of a linear layer is a NaN in all of its outputs, with quantised weights too.
# Seen: By default inputs are rounded to eight bits in groups of 32. One NaN of 512 inputs, or one in each group: all 512
#   outputs are finite, and off. Where a group is NaN altogether the outputs are NaN. One infinity gives infinities and no
#   NaN. With `DYNAMIC_QUANTIZATION_GROUP_SIZE` 0 one NaN is NaN everywhere.
# Means: A member that diverged in one unit of a layer, or an environment with one broken sensor, has an ordinary fitness
#   after export. Check what goes in.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! grep -qE "avx512_bf16|amx_bf16" /proc/cpuinfo; then
    echo "cannot tell here: seen on a processor with bfloat16 products"
    exit 3
fi
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import openvino as ov
import openvino.opset13 as op

random = np.random.default_rng(0)
weight, x = random.normal(size=(512, 512)).astype(np.float32), random.normal(size=(1, 512)).astype(np.float32)
scale = np.abs(weight).max(1, keepdims=True) / 127
whole = np.round(weight / scale).astype(np.int8)
seen = {}
for name, hints in (("default", {}), ("group size 0", {"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})):
    inputs = op.parameter([-1, 512], np.float32)
    constant = op.multiply(op.convert(op.constant(whole), "f32"), op.constant(scale))
    compiled = ov.Core().compile_model(ov.Model([op.matmul(inputs, constant, False, True)], [inputs]), "CPU", hints)
    for where, places in (("one", [0]), ("one in each group", slice(0, 512, 32)), ("one group", slice(0, 32))):
        bad = x.copy()
        bad[0, places] = np.nan
        outputs = compiled(bad)[0]
        seen[name, where] = float(np.isnan(outputs).mean()), bool(np.isfinite(outputs).all())
        print(f"{name}, inputs of NaN: {where}; share of outputs of NaN, all finite:", *seen[name, where])
raise SystemExit(list(seen.values()) != [(0.0, True)] * 2 + [(1.0, False)] * 4)
EOF
