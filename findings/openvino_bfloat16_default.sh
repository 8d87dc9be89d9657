#!/usr/bin/env bash
# OpenVINO computes a float32 network in bfloat16 where the processor can
#
# Version: openvino 2026.4.1, numpy 2.4.6; AMD Zen 4 (AVX512_BF16)
# Belief: A float32 network is evaluated in float32 on a CPU.
# Seen: On a processor with AVX512_BF16 or AMX the default of `INFERENCE_PRECISION_HINT` is bfloat16: a layer of 512 x 512
#   errs by 2e-3 of its largest output, with "f32" by 7e-7. Where the weights are int8 inputs are rounded to eight bits in
#   groups of 32 too, an error of 5e-3. `EXECUTION_MODE_HINT: ACCURACY` ends both. The saved model says float32.
# Means: Scores differ between two nodes of one cluster in the third digit, and noise of a thousandth of a weight is not seen
#   on the newer one. Set the hint.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! grep -qE "avx512_bf16|amx_bf16" /proc/cpuinfo; then
    echo "cannot tell here: this processor has no bfloat16 products"
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


def error(int8, **hints):
    inputs = op.parameter([-1, 512], np.float32)
    constant = op.multiply(op.convert(op.constant(whole), "f32"), op.constant(scale)) if int8 else op.constant(weight)
    compiled = ov.Core().compile_model(ov.Model([op.matmul(inputs, constant, False, True)], [inputs]), "CPU", hints)
    exact = x.astype(float) @ (whole * scale.astype(float) if int8 else weight.astype(float)).T
    return float(np.abs(compiled(x)[0] - exact).max() / np.abs(exact).max())


found = {
    "float32 weights": error(False),
    "float32 weights, f32": error(False, INFERENCE_PRECISION_HINT="f32"),
    "float32 weights, ACCURACY": error(False, EXECUTION_MODE_HINT="ACCURACY"),
    "int8 weights": error(True),
    "int8 weights, f32": error(True, INFERENCE_PRECISION_HINT="f32"),
    "int8 weights, ACCURACY": error(True, EXECUTION_MODE_HINT="ACCURACY"),
}
for name, value in found.items():
    print(f"{name}: error of {value:.1e}")
plain, f32, accurate, int8, int8_f32, int8_accurate = found.values()
raise SystemExit(not (plain > 5e-4 and f32 < 1e-5 and accurate < 1e-5 and int8 > 2e-3 and int8_f32 > 2e-3 and int8_accurate < 1e-5))
EOF
