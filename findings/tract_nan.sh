#!/usr/bin/env bash
# tract has no NaN: Relu, clip, maxima, tanh and sigmoid make a diverged network an ordinary one
#
# Version: tract 0.23.9, onnx 1.23.2, onnxruntime 1.32.0, numpy 2.4.6
# Belief: A network whose weights diverged has outputs of NaN, in any runtime.
# Seen: In tract Relu of NaN is 0, a maximum or minimum of NaN and 1 is 1 in either order, a clip to [-1, 2] gives -1, tanh gives -1, sigmoid
#   4.5e-7 and a hard sigmoid 1; ONNX Runtime has NaN for each. The largest of a row leaves NaN out, and so do top-k and argmax by its place.
#   And sigmoid of -100 is 4.5e-7, softplus of 89 infinite, log-sum-exp of (1000, 1000) infinite.
# Means: A diverged member has an ordinary fitness where it is scored by tract. Test weights or inputs for NaN before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tract==0.23.9 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import numpy as np
import onnx
import onnxruntime
import tract
from onnx import TensorProto, helper

onnxruntime.set_default_logger_severity(4)


def both(kind, values, fixed=(), swap=False, outputs=1, **attributes):
    x = np.float32([values])
    names = ["x", *(f"c{place}" for place in range(len(fixed)))]
    given = [onnx.numpy_helper.from_array(np.asarray(value), f"c{place}") for place, value in enumerate(fixed)]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(kind, names[::-1] if swap else names, results, **attributes)
    types = [TensorProto.INT64 if kind == "ArgMax" or place else TensorProto.FLOAT for place in range(outputs)]
    ends = [helper.make_tensor_value_info(name, one, None) for name, one in zip(results, types, strict=True)]
    start = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "g", [start], ends, given)
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    onnx.save(model, "model.onnx")
    session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
    got = tract.onnx().load("model.onnx").into_model().into_runnable().run([x])
    return got[0].to_numpy().ravel(), session.run(None, {"x": x})[0].ravel()


nan, one = float("nan"), np.float32(1)
cases = {
    "Relu": both("Relu", [nan]),
    "maximum with 1": both("Max", [nan], [one]),
    "maximum of 1 and it": both("Max", [nan], [one], swap=True),
    "minimum with 1": both("Min", [nan], [one]),
    "clip to [-1, 2]": both("Clip", [nan], [np.float32(-1), np.float32(2)]),
    "tanh": both("Tanh", [nan]),
    "sigmoid": both("Sigmoid", [nan]),
    "hard sigmoid": both("HardSigmoid", [nan]),
}
for name, (got, usual) in cases.items():
    print(f"{name} of NaN: tract {got}, ONNX Runtime {usual}")
lost = {name: not np.isnan(got[0]) and np.isnan(usual[0]) for name, (got, usual) in cases.items()}
row = [nan, 5, -1, 0]
others = {
    "largest of (NaN, 5, -1, 0)": both("ReduceMax", row, [np.int64([1])], keepdims=0),
    "argmax of it": both("ArgMax", row, axis=1, keepdims=0),
    "two largest of it": both("TopK", row, [np.int64([2])], outputs=2),
    "sigmoid of -100": both("Sigmoid", [-100]),
    "softplus of 89": both("Softplus", [89]),
    "log-sum-exp of (1000, 1000)": both("ReduceLogSumExp", [1000, 1000], [np.int64([1])], keepdims=0),
}
for name, (got, usual) in others.items():
    print(f"{name}: tract {got}, ONNX Runtime {usual}")
finite = others["sigmoid of -100"][0][0] > 1e-7 and np.isinf(others["softplus of 89"][0][0])
holds = all(lost.values()) and finite and others["largest of (NaN, 5, -1, 0)"][0][0] == 5
raise SystemExit(not (holds and np.isinf(others["log-sum-exp of (1000, 1000)"][0][0])))
EOF
"$folder/venv/bin/python" -W ignore program.py
