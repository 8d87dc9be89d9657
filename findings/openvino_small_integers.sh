#!/usr/bin/env bash
# Small integers of OpenVINO stop at their ends, and sums of int32 are float32
#
# Version: openvino 2026.4.1 on a CPU, onnx 1.23.2; ONNX Runtime 1.32.0 beside it
# Belief: Integers wrap around, as in ONNX Runtime, torch and numpy, and a sum of integers is exact.
# Seen: 1 - 2 is 0 in uint8 (255 elsewhere), 200 + 100 is 255 (44), 100 * 100 is 127 in int8 (16), and 255 shifted by one is 255 (254).
#   The sum of 2^24 + 1 and three ones is 2^24.
# Means: A hash, a random generator or a difference of bytes that is written in integer operations is another one; counts of more
#   than 16 million stay where they are.
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
    "uint8 1 - 2": run("Sub", [np.uint8([1]), np.uint8([2])], ["uint8"]),
    "uint8 200 + 100": run("Add", [np.uint8([200]), np.uint8([100])], ["uint8"]),
    "int8 100 * 100": run("Mul", [np.int8([100]), np.int8([100])], ["int8"]),
    "uint8 255 << 1": run("BitShift", [np.uint8([255]), np.uint8([1])], ["uint8"], direction="LEFT"),
    "int32 sum of 2^24 + 1, 1, 1, 1": run("ReduceSum", [np.int32([2**24 + 1, 1, 1, 1])], ["int32"]),
    "int32 2^20 * 2^20": run("Mul", [np.int32([2**20]), np.int32([2**20])], ["int32"]),
}
for name, (right, other) in seen.items():
    print(f"{name}: ONNX Runtime {right[0]}, OpenVINO {other[0]}")
right, other = ([pair[i][0][0] for pair in seen.values()] for i in (0, 1))
raise SystemExit((right, other) != ([255, 44, 16, 254, 2**24 + 4, 0], [0, 255, 127, 255, 2**24, 0]))
EOF
