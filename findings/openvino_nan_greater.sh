#!/usr/bin/env bash
# In OpenVINO a NaN is greater than 0, 1 is greater than a NaN, and int64 numbers end at 2**31
#
# Version: OpenVINO 2026.4.1, onnx 1.23.2, onnxruntime 1.23.2, numpy 2.4.6
# Belief: Comparisons of an ONNX network are those of IEEE: all are false for a NaN, but for the unequal one. int64 has 64 bits.
# Seen: `Greater(NaN, 0)` and `Greater(1, NaN)` are true in OpenVINO and false in onnxruntime, `Less(NaN, 0)` is false in both.
#   `Exp(NaN)` is infinite, a cast of NaN to bool false. A cast of 1e10 to int64 is -2147483648.
# Means: A guard against outputs that are not numbers (`Where(x > limit, ...)`) takes the other branch, and a step counter or seed
#   as an input of a network wraps. Compare both runtimes on a NaN before serving.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.23.2 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper

core = openvino.Core()


def both(kind, arrays, output, **attributes):
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, one.shape) for i, one in enumerate(arrays)]
    names = [one.name for one in inputs]
    node = helper.make_node(kind, names, ["y"], **attributes)
    graph = helper.make_graph([node], "one", inputs, [helper.make_tensor_value_info("y", output, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString()
    feed = dict(zip(names, arrays, strict=True))
    runtime = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)[0]
    return runtime.tolist(), core.compile_model(core.read_model(model, b""), "CPU")(feed)[0].tolist()


nan, zero, one = np.float32([np.nan, 1]), np.float32([0, 0]), np.float32([1, 1])
seen = {
    "NaN > 0": both("Greater", [nan, zero], TensorProto.BOOL),
    "1 > NaN": both("Greater", [one, nan], TensorProto.BOOL),
    "NaN < 0": both("Less", [nan, zero], TensorProto.BOOL),
    "bool(NaN)": both("Cast", [nan], TensorProto.BOOL, to=TensorProto.BOOL),
    "exp(NaN)": both("Exp", [nan], TensorProto.FLOAT),
    "int64(1e10)": both("Cast", [np.float32([1e10, 1])], TensorProto.INT64, to=TensorProto.INT64),
}
first = {name: (mine[0], theirs[0]) for name, (mine, theirs) in seen.items()}
print("in onnxruntime and in OpenVINO:", first)
exp = first.pop("exp(NaN)")
wanted = {"NaN > 0": (False, True), "1 > NaN": (False, True), "NaN < 0": (False, False), "bool(NaN)": (True, False), "int64(1e10)": (10**10, -(2**31))}
raise SystemExit(first != wanted or exp[0] == exp[0] or exp[1] != float("inf"))
EOF
