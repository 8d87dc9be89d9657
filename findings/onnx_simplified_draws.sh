#!/usr/bin/env bash
# In a simplified ONNX file two draws are one, and in onnxslim's a draw is a constant
#
# Version: onnxslim 0.1.98, onnxsim 0.8.1, onnxoptimizer 0.4.2, onnx 1.23.2, ONNX Runtime 1.32.0
# Belief: A simplified file computes what the file did, and a node that draws is left alone.
# Seen: All three merge nodes with the same inputs and attributes, also nodes that draw: the difference of two RandomUniformLike, of two
#   Bernoulli or of two Dropout nodes in training mode is 0 in each run, where the original's is not. Where the probability or the input
#   is a constant, onnxslim draws once and writes the result into the file: Bernoulli and Dropout are the same in each run from then on.
# Means: Two noises, two samples of a mixture or two passes with dropout are one after simplification, and exploration noise may be a
#   fixed bias; outputs keep their size. Give each node a seed of its own, or simplify before draws are put in.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxslim==0.1.98 onnxsim==0.8.1 onnxoptimizer==0.4.2 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import contextlib
import io

import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
import onnxsim
import onnxslim
from onnx import TensorProto, helper, numpy_helper

COUNT = 100


def model(nodes, constants):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [COUNT]) for name in "xy"]
    constants = [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "draws", value[:1], value[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(made)
    return made


def runs(file, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": x})[0] for _ in range(3)]


def of_two(kind, *others):
    return [helper.make_node(kind, ["x", *others], [name]) for name in "ab"] + [helper.make_node("Sub", ["a", "b"], ["y"])]


def of_constant(kind, *others):
    return [helper.make_node(kind, ["k", *others], ["a"]), helper.make_node("Add", ["x", "a"], ["y"])]


half, dropout = np.full(COUNT, 0.5, np.float32), {"p": np.float32(0.5), "t": np.array(True)}
two = {
    "RandomUniformLike": model(of_two("RandomUniformLike"), {}),
    "Bernoulli": model(of_two("Bernoulli"), {}),
    "Dropout": model(of_two("Dropout", "p", "t"), dropout),
}
fixed = {
    "Bernoulli": model(of_constant("Bernoulli"), {"k": half}),
    "Dropout": model(of_constant("Dropout", "p", "t"), {"k": half, **dropout}),
}
tools = {
    "original": lambda file: file,
    "onnxslim": onnxslim.slim,
    "onnxsim": lambda file: onnxsim.simplify(file)[0],
    "onnxoptimizer": lambda file: onnxoptimizer.optimize(file, onnxoptimizer.get_fuse_and_elimination_passes()),
}
holds = True
for tool, simplify in tools.items():
    with contextlib.redirect_stdout(io.StringIO()):
        apart = {name: float(np.abs(runs(simplify(file), half)).max()) for name, file in two.items()}
        kinds = {name: len({each.tobytes() for each in runs(simplify(file), half)}) for name, file in fixed.items()}
    print(f"{tool}: largest difference of two draws {apart}; kinds of three runs where the input is a constant {kinds}")
    holds &= all((value > 0) == (tool == "original") for value in apart.values())
    holds &= all(kind == (1 if tool == "onnxslim" else 3) for kind in kinds.values())
raise SystemExit(not holds)
EOF
"$folder/venv/bin/python" -W ignore program.py
