#!/usr/bin/env bash
# onnxoptimizer moves a padding with zeros into max pooling, where padding is minus infinity
#
# Version: onnxoptimizer 0.4.2, onnx 1.23.2, ONNX Runtime 1.32.0
# Belief: The fuse passes of onnxoptimizer, all of which are on by default, keep what a network computes.
# Seen: A Pad with zeros before MaxPool becomes MaxPool with `pads`, for which ONNX leaves the border out. For an image of negative numbers
#   all outputs at the border are negative in place of 0; for one of normal numbers 7 of 20 there are other ones. With padding of
#   average pooling and of a convolution the fused files are right.
# Means: A network that pads with zeros before it pools has other outputs at each border after simplification wherever values before the
#   pooling are negative; behind a ReLU they are the same. Compare outputs, or leave `fuse_pad_into_pool` out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxoptimizer==0.4.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def run(file, x):
    session = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0][0, 0]


def padded(kind, **attributes):
    inputs = ["padded", "weights"] if kind == "Conv" else ["padded"]
    nodes = [helper.make_node("Pad", ["x", "pads"], ["padded"]), helper.make_node(kind, inputs, ["y"], **attributes)]
    size = 10 if kind == "Conv" else 6
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, side, side]) for name, side in (("x", 10), ("y", size))]
    constants = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "weights": np.ones((1, 1, 3, 3), np.float32)}
    kept = [numpy_helper.from_array(value, name) for name, value in constants.items() if name == "pads" or kind == "Conv"]
    graph = helper.make_graph(nodes, "padded", values[:1], values[1:], kept)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(file)
    return file


normal = np.random.default_rng(0).standard_normal((1, 1, 10, 10)).astype(np.float32)
images = {"negative": -abs(normal), "normal": normal, "after ReLU": abs(normal)}
border = np.ones((6, 6), bool)
border[1:-1, 1:-1] = False
pooling = {"kernel_shape": [2, 2], "strides": [2, 2]}
changed = {}
for kind, attributes in (("MaxPool", pooling), ("AveragePool", pooling), ("Conv", {})):
    file = padded(kind, **attributes)
    fused = onnxoptimizer.optimize(file)
    print(kind, "nodes after onnxoptimizer:", [node.op_type for node in fused.graph.node])
    for name, image in images.items():
        other = ~np.isclose(run(file, image), run(fused, image), atol=1e-5)
        changed[kind, name] = int(other.sum())
        print(f"  {name} image: {other.sum()} of {other.size} outputs changed")
        if kind == "MaxPool" and other[~border].any():
            raise SystemExit("inside too")
print("at the border:", int(border.sum()))
right = not any(count for (kind, name), count in changed.items() if kind != "MaxPool" or name == "after ReLU")
raise SystemExit(not (right and changed["MaxPool", "negative"] == border.sum() and 0 < changed["MaxPool", "normal"] < border.sum()))
EOF
"$folder/venv/bin/python" -W ignore program.py
