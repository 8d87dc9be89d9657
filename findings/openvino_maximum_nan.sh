#!/usr/bin/env bash
# A maximum or minimum in OpenVINO forgets all that stands before a NaN
#
# Version: openvino 2026.4.1 on a CPU, onnx 1.23.2
# Belief: The maximum of numbers with a NaN is NaN, or the maximum of the others.
# Seen: ReduceMax of 5, NaN, 3 is 3, and of 5, 3, NaN, 4, 2 it is 4; ReduceMin of 1, NaN, 3 is 3. The result is that of the numbers
#   behind the last NaN, and NaN where it stands at the end. ArgMin of 2, NaN, 1 and both of ONNX Runtime leave it out or keep it.
# Means: The best and the worst fitness of a generation with one diverged member are those of a part of the population, by the place of
#   that member.
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


nan = np.nan
seen = {}
for values in ([5, nan, 3], [5, 3, nan, 4, 2], [1, nan, 3], [nan, 5, 3], [5, 3, nan]):
    for operator in ("ReduceMax", "ReduceMin"):
        other, (value,) = run(operator, [np.float32(values)], ["float32"], keepdims=0)
        seen[operator, str(values)] = value[0]
        print(f"{operator} of {values}: OpenVINO {value[0]}, ONNX Runtime {other[0][0]}")
holds = seen["ReduceMax", str([5, nan, 3])] == 3 and seen["ReduceMax", str([5, 3, nan, 4, 2])] == 4
holds &= seen["ReduceMin", str([1, nan, 3])] == 3 and seen["ReduceMax", str([nan, 5, 3])] == 5
raise SystemExit(not (holds and np.isnan(seen["ReduceMax", str([5, 3, nan])])))
EOF
