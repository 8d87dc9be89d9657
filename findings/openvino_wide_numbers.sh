#!/usr/bin/env bash
# OpenVINO computes int64 in 32 bits and float64 in float32, under the old types' names
#
# Version: openvino 2026.4.1 on a CPU, onnx 1.23.2; ONNX Runtime 1.32.0 beside it
# Belief: A network with int64 or float64 inputs and outputs has those numbers, or is refused.
# Seen: 2^40 + 7 that goes in comes out as 7, 2^32 + 7 equals 7, 2^31 is not greater than 7, the larger of 2^40 and 1 is 1, and
#   2^40 + 7 modulo 1,000 is 7. 1e200 is 3.4e38, and its square too, where float64 has infinity. Outputs are called int64 and
#   float64. No word is said. ONNX Runtime is right.
# Means: Seeds, hashes, time stamps and counters within a network are other numbers; an infinite float64 score is finite.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 openvino==2026.4.1 onnx==1.23.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import onnxruntime
import openvino
from onnx import helper

TYPE = helper.np_dtype_to_tensor_dtype


def run(operator, inputs, outputs, **attributes):
    """What ONNX Runtime and OpenVINO give for one operator."""
    named = {f"input{i}": np.asarray(value) for i, value in enumerate(inputs)}
    results = [f"output{i}" for i in range(len(outputs))]
    node = helper.make_node(operator, list(named), results, **attributes)
    infos = [helper.make_tensor_value_info(name, TYPE(value.dtype), value.shape) for name, value in named.items()]
    ends = [helper.make_tensor_value_info(name, TYPE(np.dtype(kind)), None) for name, kind in zip(results, outputs)]
    graph = helper.make_graph([node], "graph", infos, ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    first = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, named)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(list(named.values()))
    return [value.ravel().tolist() for value in first], [np.array(found[i]).ravel().tolist() for i in range(len(outputs))]


seen = {
    "identity": run("Identity", [np.int64([2**40 + 7])], ["int64"]),
    "equal": run("Equal", [np.int64([2**32 + 7]), np.int64([7])], ["bool"]),
    "greater": run("Greater", [np.int64([2**31]), np.int64([7])], ["bool"]),
    "largest": run("ReduceMax", [np.int64([2**40, 1])], ["int64"]),
    "modulo": run("Mod", [np.int64([2**40 + 7]), np.int64([1000])], ["int64"]),
    "float64 square": run("Mul", [np.float64([1e200]), np.float64([1e200])], ["float64"]),
    "float64 sum": run("Add", [np.float64([1e200]), np.float64([1])], ["float64"]),
}
for name, (right, other) in seen.items():
    print(f"{name}: ONNX Runtime {right[0]}, OpenVINO {other[0]}")
other = {name: pair[1][0][0] for name, pair in seen.items()}
right = {name: pair[0][0][0] for name, pair in seen.items()}
holds = (right["identity"], right["equal"], right["greater"], right["largest"], right["modulo"]) == (2**40 + 7, False, True, 2**40, 783)
holds &= (other["identity"], other["equal"], other["greater"], other["largest"], other["modulo"]) == (7, True, False, 1, 7)
raise SystemExit(not (holds and right["float64 square"] == np.inf and other["float64 square"] < 1e39 and other["float64 sum"] < 1e39))
EOF
