#!/usr/bin/env bash
# A sum over the population stops at 16.8 million in ONNX Runtime over the first axis, in OpenVINO over all
#
# Version: onnxruntime 1.32.0, openvino 2026.4.1 on a CPU, onnx 1.23.2
# Belief: Which axis is summed is a question of speed; both runtimes sum in pairs or blocks, as torch and numpy's contiguous sums do.
# Seen: 20 million float32 ones: ONNX Runtime has 20 million over all and over the last axis, and 16,777,216 over the first one.
#   OpenVINO has 16,777,216 over all, with a mean of 0.84 and an L2 norm of 4,096 for 4,472, and 20 million over either axis.
# Means: A batch mean, a norm of the weights or a mean fitness depends on the layout of the same numbers. Sum in blocks.
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


ones = np.ones(20_000_000, np.float32)
cases = {
    "sum over all": run("ReduceSum", [ones], ["float32"], keepdims=0),
    "over the last axis": run("ReduceSum", [ones[None], np.int64([1])], ["float32"], keepdims=0),
    "over the first axis of two columns": run("ReduceSum", [np.ones((20_000_000, 2), np.float32), np.int64([0])], ["float32"], keepdims=0),
    "mean over all": run("ReduceMean", [ones], ["float32"], keepdims=0),
    "L2 norm": run("ReduceL2", [ones], ["float32"], keepdims=0),
}
for name, (first, second) in cases.items():
    print(f"{name}: ONNX Runtime {first[0][0]:.7g}, OpenVINO {second[0][0]:.7g}")
first, second = ([round(pair[i][0][0], 2) for pair in cases.values()] for i in (0, 1))
raise SystemExit(not (first[:4] == [2e7, 2e7, 2**24, 1] and second == [2**24, 2e7, 2e7, 0.84, 4096] and first[4] > 4400))
EOF
