#!/usr/bin/env bash
# In OpenVINO a Relu of NaN is 0, so that a diverged network has ordinary outputs
#
# Version: openvino 2026.4.1, onnx 1.23.2, onnxruntime 1.32.0, numpy 2.4.6, inference in float32
# Belief: A NaN in the weights or in an activation reaches the outputs; at most pooling loses it.
# Seen: On a CPU Relu, Celu, Clip, Max and Min give a number for a NaN, HardSigmoid 1, and softmax gives the
#   other classes 0 where onnxruntime makes the row NaN. An MLP with Relu whose first layer is all NaN has outputs equal to
#   its last bias.
# Means: A diverged member scores as a constant classifier, ranks above bad finite ones, and no check for NaN in its outputs
#   sees it. Check the weights before the network is compiled.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

core, nan = openvino.Core(), float("nan")


def both(nodes, x, **constants):
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", x.shape), ("y", None))]
    initial = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
    made = [helper.make_node(op, inputs, [out]) for op, inputs, out in nodes]
    graph = helper.make_graph(made, "g", values[:1], values[1:], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    data = model.SerializeToString()
    peer = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    ours = core.compile_model(core.read_model(data), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    return ours, peer


lost, x = [], np.float32([[1, nan, 3, 2]])
constants_of = {"Clip": {"a": 0, "b": 1}, "Max": {"a": 0}, "Min": {"a": 0}}
for op in ("Relu", "Celu", "HardSigmoid", "Clip", "Max", "Min", "Tanh", "Softmax"):
    constants = constants_of.get(op, {})
    ours, peer = both([(op, ["x", *constants], "y")], x, **constants)
    print(f"{op:12s} of 1, nan, 3, 2: openvino {ours[0]}, onnxruntime {peer[0]}")
    if not np.isnan(ours[0, 1]) and np.isnan(peer[0, 1]):
        lost.append(op)
layers = [("MatMul", ["x", "first"], "a"), ("Relu", ["a"], "b"), ("MatMul", ["b", "second"], "c"), ("Add", ["c", "bias"], "y")]
ours, peer = both(layers, np.float32([[1, 2, 3, 4]]), first=np.full((4, 8), nan), second=np.ones((8, 3)), bias=[0.1, 0.7, 0.2])
print(f"MLP with a first layer of NaN: openvino {ours[0]}, onnxruntime {peer[0]}")
six = lost == ["Relu", "Celu", "HardSigmoid", "Clip", "Max", "Min"]
raise SystemExit(not (six and np.isfinite(ours).all() and np.isnan(peer).all()))
EOF
"$folder/venv/bin/python" -W ignore "$folder/program.py"
