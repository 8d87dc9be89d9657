#!/usr/bin/env bash
# The usual converter of ONNX files to float16 makes 1e-9 a hundred times larger, and 30,000 to 10,000
#
# Version: onnxconverter-common 1.16.0, onnx 1.23.2, numpy 2.4.6
# Belief: A weight in float16 is the nearest float16 number, by numpy, torch or a converter.
# Seen: `convert_float_to_float16` moves numbers between 0 and 1e-7 to 1e-7, with their sign, and all above 10,000 to 10,000, though float16 reaches
#   65,504. Infinity and NaN stay. numpy gives 0 for 1e-9, 30,000 for 30,000 and infinity for 1e6.
# Means: The small weights of a network under weight decay, or of small noise, all come back with one size; and a scale of 30,000 is
#   a third of it, with finite outputs and no word beyond a warning. Give `min_positive_val=0` and `max_finite_val=65504`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxconverter-common==1.16.0 onnx==1.23.2 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnxconverter_common.float16 import convert_float_to_float16

numbers = np.float32([1e-9, -1e-9, 0, 1e-5, 3e4, 6e4, 1e6, np.inf, np.nan])
shape = [numbers.size]
graph = helper.make_graph(
    [helper.make_node("Mul", ["x", "w"], ["y"])], "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], [numpy_helper.from_array(numbers, "w")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
converted = numpy_helper.to_array(convert_float_to_float16(model).graph.initializer[0]).astype(float)
rounded = numbers.astype(np.float16).astype(float)
for row in zip(numbers.tolist(), converted.tolist(), rounded.tolist(), strict=True):
    print("{:12g}  converter {:12g}  numpy {:12g}".format(*row))
small = np.float16(1e-7)
right = np.array_equal(converted, [small, -small, 0, np.float16(1e-5), 1e4, 1e4, 1e4, np.inf, np.nan], equal_nan=True)
raise SystemExit(not (right and rounded[0] == 0 and rounded[4] == 3e4))
EOF
