#!/usr/bin/env bash
# An ONNX model saved again with external data grows its file by all weights each time
#
# Version: onnx 1.23.2, numpy 2.4.6
# Belief: Saving to the same two names writes both anew.
# Seen: onnx.save(..., save_as_external_data=True) appends to the file of weights: after three saves it has three times the
#   size, and the model reads the last part. The model in memory has no weights after a save, only the name of the file.
# Means: A best network saved each generation fills the disk, and each old centre stays in the file that is handed over.
#   Delete the file first, and save a copy of the model.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import os
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

place, sizes = sys.argv[1], []
for generation in range(3):
    weights = np.full((300, 300), generation, np.float32)
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 300])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 300])]
    node, constant = helper.make_node("MatMul", ["x", "w"], ["y"]), numpy_helper.from_array(weights, "w")
    graph = helper.make_graph([node], "g", inputs, outputs, [constant])
    model = helper.make_model(graph)
    onnx.save(model, f"{place}/best.onnx", save_as_external_data=True, location="best.bin", size_threshold=0)
    sizes.append(os.path.getsize(f"{place}/best.bin"))
last = numpy_helper.to_array(onnx.load(f"{place}/best.onnx").graph.initializer[0])
held = open(f"{place}/best.bin", "rb").read().count(np.full(300, 1, np.float32).tobytes())
left = len(model.graph.initializer[0].raw_data)
print(f"bytes after each save: {sizes}; weights read: {last[0, 0]}; rows of the second generation still in the file: {held}")
print(f"bytes of weights in the model that was saved: {left}")
raise SystemExit(not (sizes == [360_000, 720_000, 1_080_000] and last[0, 0] == 2 and held and left == 0))
EOF
"$folder/venv/bin/python" "$folder/program.py" "$folder"
