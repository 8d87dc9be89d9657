#!/usr/bin/env bash
# TVM and IREE lose a NaN in clips and maxima, TVM in Relu and ELU, and IREE has NaN for (-2)**3
#
# Version: apache-tvm 0.27.0.post1, iree-base-compiler and iree-base-runtime 3.13.0, onnx 1.23.2, onnxruntime 1.32.0, numpy 2.4.6
# Belief: A compiled ONNX network has the uncompiled one's special values.
# Seen: ONNX Runtime has NaN for Relu, ELU, sign, a clip, and a maximum or minimum with 1, of NaN. TVM has a number for each of these, for its
#   Relu and ELU 0. IREE has numbers for the clip, maximum, minimum and sign. With exponents that are an input IREE has NaN for (-2)**3 and
#   0**0, and the sine of 1e8 is 0.
# Means: A diverged member has an ordinary fitness in one runtime, and a healthy one NaN in another. Compare on negative numbers and
#   on NaN before a compiled network is scored.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet apache-tvm==0.27.0.post1 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6 typing-extensions ml-dtypes
cd "$folder"
cat >program.py <<'EOF'
import subprocess
import sysconfig

import iree.runtime
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

onnxruntime.set_default_logger_severity(4)
TOOLS = sysconfig.get_path("scripts") + "/"


def model(kind, inputs, fixed):
    starts = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()]
    ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    given = [onnx.numpy_helper.from_array(np.float32(value), f"c{place}") for place, value in enumerate(fixed)]
    node = helper.make_node(kind, [*inputs, *(one.name for one in given)], ["y"])
    graph = helper.make_graph([node], "g", starts, ends, given)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def by_iree(made, inputs):
    onnx.save(made, "model.onnx")
    subprocess.run([TOOLS + "iree-import-onnx", "model.onnx", "--opset-version", "18", "-o", "model.mlir"], check=True, capture_output=True)
    targets = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=generic"]
    subprocess.run([TOOLS + "iree-compile", "model.mlir", *targets, "-o", "model.vmfb"], check=True, capture_output=True)
    config = iree.runtime.Config("local-sync")
    with open("model.vmfb", "rb") as file:
        loaded = iree.runtime.load_vm_module(iree.runtime.VmModule.copy_buffer(config.vm_instance, file.read()), config)
    return np.asarray(loaded.g(*inputs.values()).to_host())


def by_tvm(made, inputs):
    module = relax.transform.LegalizeOps()(from_onnx(made, keep_params_in_input=False))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(value) for value in inputs.values()))
    return (result if hasattr(result, "numpy") else result[0]).numpy()


nan, one = {"x": np.float32([np.nan])}, np.float32([1])
CASES = {
    "Relu of NaN": ("Relu", nan, ()),
    "ELU of NaN": ("Elu", nan, ()),
    "sign of NaN": ("Sign", nan, ()),
    "clip of NaN to [-1, 2]": ("Clip", nan, (-1, 2)),
    "maximum of NaN and 1": ("Max", {**nan, "z": one}, ()),
    "minimum of NaN and 1": ("Min", {**nan, "z": one}, ()),
    "(-2)**3": ("Pow", {"x": np.float32([-2]), "z": np.float32([3])}, ()),
    "0**0": ("Pow", {"x": np.float32([0]), "z": np.float32([0])}, ()),
    "sine of 1e8": ("Sin", {"x": np.float32([1e8])}, ()),
}
lost = {"ONNX Runtime": [], "TVM": [], "IREE": []}
for name, (kind, inputs, fixed) in CASES.items():
    made = model(kind, inputs, fixed)
    usual = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    values = dict(zip(lost, (usual[0], by_tvm(made, inputs)[0], by_iree(made, inputs)[0]), strict=True))
    print(name, {runtime: float(value) for runtime, value in values.items()}, flush=True)
    for runtime, value in values.items():
        if np.isnan(value) != np.isnan(usual[0]) or not np.isclose(value, usual[0], equal_nan=True, atol=0.1):
            lost[runtime].append(name)
names = list(CASES)
raise SystemExit(lost != {"ONNX Runtime": [], "TVM": names[:6], "IREE": names[2:]})
EOF
"$folder/venv/bin/python" -W ignore program.py
