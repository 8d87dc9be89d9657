#!/usr/bin/env bash
# After compile biases and scales follow the torch module or the numpy array, and matrices do not, in OpenVINO and ONNX Runtime
#
# Version: openvino 2026.4.1, onnxruntime 1.32.0, onnx 1.23.2, torch 2.14.1, numpy 2.4.6
# Belief: A compiled model has a copy of all weights, or shares all that it was given by reference.
# Seen: OpenVINO's compiled network of a torch module takes later changes in place of biases, PReLU's slopes, embeddings and bare scales, and none of
#   matrices, kernels and layer norms. Between convert_model and compile_model changes of all but layer norms are taken. In ONNX Runtime an initializer of
#   `add_initializer` that changes is taken in Conv, Add, Gather, layer norm and as the bias of Gemm, and not as a matrix of MatMul and Gemm, which are
#   packed; with `session.disable_prepacking` all are taken.
# Means: Members that are written into the weights of a session are each a mixture of their own biases and the first one's matrices, whose fitness looks like
#   noise. The network that was compiled once changes while the module trains on. Compile again, or make the weights inputs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import numpy as np
import onnxruntime
import openvino
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

rng = np.random.default_rng(0)
x = torch.from_numpy(rng.normal(size=(5, 64)).astype("f4"))
core = openvino.Core()
core.set_property("CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x):
        return x * self.scale


modules = {"linear": nn.Linear(64, 64), "conv": nn.Conv1d(5, 8, 3), "norm": nn.LayerNorm(64), "prelu": nn.PReLU(64), "scale": Scale()}
modules["embedding"] = nn.Embedding(10, 64)
taken, before_compile = {}, {}
with torch.no_grad():
    for name, module in modules.items():
        inputs = torch.arange(5) if name == "embedding" else x
        converted = openvino.convert_model(module, example_input=inputs)
        for weight in module.parameters():
            weight.add_(1)
        compiled = core.compile_model(converted, "CPU")
        first = compiled(inputs.numpy())[0].copy()
        before_compile[name] = bool(np.allclose(first, module(inputs).numpy(), rtol=1e-3, atol=1e-3))
        for part, weight in module.named_parameters():
            weight.add_(1)
            taken[f"{name}.{part}"] = not np.allclose(compiled(inputs.numpy())[0], first, rtol=1e-3, atol=1e-3)
            weight.sub_(1)
print("OpenVINO takes changes before compile_model:", before_compile)
print("OpenVINO takes changes after it:", taken)
assert [name for name, seen in before_compile.items() if not seen] == ["norm"]
assert [name for name, seen in taken.items() if not seen] == ["linear.weight", "conv.weight", "norm.weight", "norm.bias"]


def session(node, shape, kind, weights, prepacks):
    made = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ends = helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [ends[0]], [ends[1]], made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not prepacks:
        options.add_session_config_entry("session.disable_prepacking", "1")
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in weights.items()}
    for name, value in values.items():
        options.add_initializer(name, value)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]), values


def normal(*shape):
    return rng.normal(size=shape).astype("f4")


CASES = {
    "MatMul": (["x", "w"], normal(5, 64), {"w": normal(64, 64)}),
    "Gemm": (["x", "w", "b"], normal(5, 64), {"w": normal(64, 64), "b": normal(64)}),
    "Conv": (["x", "k"], normal(1, 4, 20), {"k": normal(8, 4, 3)}),
    "Add": (["x", "b"], normal(5, 64), {"b": normal(64)}),
    "Gather": (["e", "x"], np.arange(5), {"e": normal(10, 64)}),
    "LayerNormalization": (["x", "s", "b"], normal(5, 64), {"s": normal(64), "b": normal(64)}),
}
for prepacks in (True, False):
    follows = {}
    for name, (inputs, x, weights) in CASES.items():
        kind = TensorProto.INT64 if name == "Gather" else TensorProto.FLOAT
        run, values = session(helper.make_node(name, inputs, ["y"]), x.shape, kind, weights, prepacks)
        first = run.run(None, {"x": x})[0]
        for part, array in weights.items():
            array *= 2
            follows[f"{name}.{part}"] = bool((run.run(None, {"x": x})[0] != first).any())
            array /= 2
    print(f"ONNX Runtime, weights packed {prepacks}, takes changes:", follows)
    assert [name for name, seen in follows.items() if not seen] == (["MatMul.w", "Gemm.w"] if prepacks else [])
PROGRAM
