#!/usr/bin/env bash
# A NaN in the activations can vanish in onnxruntime
#
# Version: onnxruntime 1.32.0, onnx 1.23.2, numpy 2.4.6
# Belief: NaN goes through every layer, as in torch and numpy, so that a diverged network is seen at its output.
# Seen: MaxPool and ReduceMax drop the NaN unless it stands at certain places, ArgMax names a finite element, ThresholdedRelu
#   makes it 0; Relu, Clip and Max keep it, and TopK ranks it first.
# Means: A diverged member scored through an ONNX export gets a finite, ordinary fitness and may be selected. Check parameters
#   and logits for NaN before pooling and argmax.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def run(operator, x, kind=TensorProto.FLOAT, **attributes):
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


kept, lost = [], []
for place in range(4):
    x = np.arange(4, dtype=np.float32)
    x[place] = np.nan
    results = {
        "Relu": np.isnan(run("Relu", x)).any(),
        "MaxPool": np.isnan(run("MaxPool", x.reshape(1, 1, 2, 2), kernel_shape=[2, 2])).any(),
        "ReduceMax": np.isnan(run("ReduceMax", x, keepdims=0)),
        "ArgMax": run("ArgMax", x, TensorProto.INT64, axis=0, keepdims=0) == place,
        "ThresholdedRelu": np.isnan(run("ThresholdedRelu", x)).any(),
    }
    kept += [name for name, there in results.items() if there]
    lost += [name for name, there in results.items() if not there]
for name in ("Relu", "MaxPool", "ReduceMax", "ArgMax", "ThresholdedRelu"):
    print(f"{name}: the NaN is seen at {kept.count(name)} of 4 places")
raise SystemExit("Relu" in lost or not {"MaxPool", "ReduceMax", "ArgMax", "ThresholdedRelu"} <= set(lost))
EOF
