#!/usr/bin/env bash
# The k best of OpenVINO have a NaN first, in the middle or not at all, and ties in no order
#
# Version: openvino 2026.4.1 on a CPU, onnx 1.23.2; ONNX Runtime 1.32.0 beside it
# Belief: TopK names members by their value, a NaN as the largest (torch, ONNX Runtime) or never, and of equal values the earlier one,
#   as ONNX demands.
# Seen: Of 5, NaN, 1, NaN, 2, 7 the three largest are 7, NaN, NaN and the three smallest NaN, 1, 2. A NaN before 0 to 19 is the
#   second largest, and the third smallest; behind them it is the largest. Of twelve values 1, 3, 3 the five largest are the places
#   5, 2, 1, 4, 7, where ONNX Runtime has 1, 2, 4, 5, 7.
# Means: A truncation selection within a network takes a diverged member by its place, and another elite where fitnesses tie.
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
top = lambda values, k, largest=1: run("TopK", [np.float32(values), np.int64([k])], ["float32", "int64"], axis=0, largest=largest)
cases = {
    "largest of 5, NaN, 1, NaN, 2, 7": top([5, nan, 1, nan, 2, 7], 3),
    "smallest of these": top([5, nan, 1, nan, 2, 7], 3, 0),
    "largest of NaN, 0 to 19": top([nan, *range(20)], 3),
    "smallest of NaN, 0 to 19": top([nan, *range(20)], 3, 0),
    "largest of 0 to 19, NaN": top([*range(20), nan], 3),
    "largest of 1, 3, 3, ...": top([1, 3, 3] * 4, 5),
}
for name, (first, second) in cases.items():
    print(f"{name}: OpenVINO {second[0]} at {second[1]}, ONNX Runtime {first[0]} at {first[1]}")
places = [second[1] for _, second in cases.values()]
right = [first[1] for first, _ in cases.values()]
holds = right == [[1, 3, 5], [2, 4, 0], [0, 20, 19], [1, 2, 3], [20, 19, 18], [1, 2, 4, 5, 7]]
raise SystemExit(not (holds and places == [[5, 1, 3], [1, 2, 4], [20, 0, 19], [1, 2, 0], [20, 19, 18], [5, 2, 1, 4, 7]]))
EOF
