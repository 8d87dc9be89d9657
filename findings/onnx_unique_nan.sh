#!/usr/bin/env bash
# Unique of ONNX Runtime makes a NaN equal to its neighbours, and numbers equal to a NaN
#
# Version: onnxruntime 1.32.0, openvino 2026.4.1, onnx 1.23.2, numpy 2.4.6
# Belief: NaN is a value of its own, once or as often as it comes, as in numpy and torch.
# Seen: Of 5, NaN, 1, NaN, 2, 7 ONNX Runtime has the values 1, 2, 5, 7, and the inverse says that the first NaN is 5 and the second 1;
#   both are counted there. Of NaN, 5, 5 the only value is NaN, three times. OpenVINO counts values 0 times.
# Means: Archives, histograms of behaviours and counts of distinct answers within a network give a diverged member's count to
#   another one.
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
kinds = ["float32", "int64", "int64", "int64"]
seen = {}
for values in ([5, nan, 1, nan, 2, 7], [nan, 5, 5], [5, 1, 2]):
    first, second = run("Unique", [np.float32(values)], kinds, sorted=1)
    seen[str(values)] = first, second
    unique, counts = np.unique(np.float32(values), return_counts=True)
    print(f"{values}: ONNX Runtime {first[0]} counted {first[3]}, places {first[2]}; OpenVINO {second[0]} counted {second[3]}; numpy {unique} counted {counts}")
(values, _, places, counts), other = seen[str([5, nan, 1, nan, 2, 7])]
holds = (values, places, counts) == ([1, 2, 5, 7], [2, 2, 0, 0, 1, 3], [2, 1, 2, 1]) and 0 in other[3]
first = seen[str([nan, 5, 5])][0]
raise SystemExit(not (holds and len(first[0]) == 1 and np.isnan(first[0][0]) and first[3] == [3] and seen[str([5, 1, 2])][0][3] == [1, 1, 1]))
EOF
