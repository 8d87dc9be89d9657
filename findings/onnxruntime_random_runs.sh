#!/usr/bin/env bash
# A random node with a seed gives other numbers in each run of a session, and equal seeds in one model give equal numbers
#
# Version: onnxruntime 1.32.0, onnx 1.23.2, numpy 2.4.6
# Belief: A node such as RandomNormalLike with the attribute seed gives the same numbers in every run; or streams of their own
#   to two nodes.
# Seen: The seed begins a stream of the session: a second run gives other numbers, a new session the first ones again. Two nodes
#   of one model with one seed give the same numbers, so noise that is added twice is added at double size.
# Means: The fitness of a network with noise or dropout depends on how many members its session scored before, hence on the
#   number of workers. Score members with a session each, or give noise to the network as an input.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
"$folder/venv/bin/python" - <<'EOF'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

nodes = [helper.make_node("RandomNormalLike", ["x"], [name], seed=7.0) for name in ("y", "z")]
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1000]) for name in ("x", "y", "z")]
model = helper.make_model(helper.make_graph(nodes, "noise", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 20)])
model.ir_version = 10
inputs = {"x": np.zeros(1000, np.float32)}
one, other = (onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]) for _ in range(2))
(first, second), (again, _), (fresh, _) = one.run(None, inputs), one.run(None, inputs), other.run(None, inputs)
print("node y, first and second run:", first[:3], again[:3])
print("node y, first run of another session:", fresh[:3])
print("node z, first run:", second[:3])
raise SystemExit(np.array_equal(first, again) or not np.array_equal(first, fresh) or not np.array_equal(first, second))
EOF
