#!/usr/bin/env bash
# In a file of torch's ONNX exporter logaddexp(100, 100) and log-sigmoid(-200) are infinite
#
# Version: torch 2.14.1 with onnxscript 0.7.2 (`dynamo=True`), ONNX Runtime 1.32.0
# Belief: An exported function is the function: `logaddexp` and `logsigmoid` exist because the plain formulas overflow.
# Seen: The exporter writes the plain formulas: log(exp(a) + exp(b)) and log(sigmoid(x)). 100.69 becomes infinity and -200 minus infinity.
#   A division rounded down is off by one too: 1.5 by 0.3 is 4 in torch and 5 in the file; and a remainder by infinity, which is the
#   number itself for positive ones, is NaN. Of 79 functions that were compared these, a sign of NaN and orders of ties differed.
# Means: Losses, log probabilities and mixtures that are part of an exported network are infinite where training was fine. Compare outputs
#   on inputs of the size that will come.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0
cd "$folder"
cat >program.py <<'EOF'
import logging
import math

import numpy as np
import onnxruntime
import torch
from torch import nn

logging.disable(logging.CRITICAL)


class Functions(nn.Module):
    def forward(self, x):
        return (
            torch.logaddexp(x, x),
            nn.functional.logsigmoid(x),
            torch.div(x, 0.3, rounding_mode="floor"),
            torch.remainder(x, torch.tensor(math.inf)),
        )


x = torch.tensor([-200.0, 1.5, 100.0])
torch.onnx.export(Functions(), (x,), dynamo=True, verbose=False).save("functions.onnx")
session = onnxruntime.InferenceSession("functions.onnx")
exported = session.run(None, {session.get_inputs()[0].name: x.numpy()})
names = ("logaddexp", "logsigmoid", "div down by 0.3", "remainder by infinity")
eager = [each.numpy() for each in Functions()(x)]
for name, right, got in zip(names, eager, exported):
    print(name, "torch", right.tolist(), "file", got.tolist())
as_seen = np.isposinf(exported[0][2]) and np.isneginf(exported[1][0]) and exported[2][1] == 5 and np.isnan(exported[3]).all()
right = abs(eager[0][2] - 100.6931) < 1e-3 and eager[1][0] == -200 and eager[2][1] == 4 and eager[3][1] == 1.5
raise SystemExit(not (as_seen and right))
EOF
"$folder/venv/bin/python" -W ignore program.py
