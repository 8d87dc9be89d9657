#!/usr/bin/env bash
# torch's ONNX export leaves out arguments: a pool's divisor, the scale of a smoothed resize, label smoothing, "without replacement"
#
# Version: torch 2.14.1 (dynamo), onnxscript 0.7.2, onnx 1.23.2, onnxruntime 1.32.0
# Belief: An operation with an argument that the exporter cannot express is refused, as many are.
# Seen: Exported with no word and run in ONNX Runtime, `avg_pool2d` and `avg_pool3d` divide by their size and not by `divisor_override`,
#   `cross_entropy` has no label smoothing, four draws of four "without replacement" repeat, and a bilinear resize by a factor with
#   `antialias` is up to 30 % off; one to a size is right, but not with `align_corners`, which is written and computed in another
#   way. A row of attention that sees nothing is 0 in torch, and NaN or a mean of all in the file, by its mask.
# Means: The exported network is another one than was trained. Compare outputs of file and module on real inputs before it is used.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0
cat >"$folder/program.py" <<'PROGRAM'
import contextlib
import io
import logging
import math

import onnxruntime
import torch
import torch.nn.functional as F

logging.disable(logging.CRITICAL)
onnxruntime.set_default_logger_severity(4)


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@torch.no_grad()
def both(function, x):
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(Function(function), (x,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return function(x), torch.from_numpy(session.run(None, {session.get_inputs()[0].name: x.numpy()})[0])


torch.manual_seed(0)
image, cube = torch.arange(35.0).reshape(1, 1, 5, 7) ** 1.5, torch.arange(64.0).reshape(1, 1, 4, 4, 4)
table, ids = torch.arange(1.0, 13).reshape(6, 2), torch.tensor([[0, 1, 2, 0], [3, 0, 0, 0]])
scores, targets = torch.randn(3, 4), torch.tensor([0, 1, 2])
q, hidden = torch.randn(1, 1, 3, 4), torch.tensor([[True] * 3, [False] * 3, [True] * 3])
infinite = torch.zeros(3, 3).masked_fill(~hidden, -math.inf)
cases = {
    "avg_pool2d, divisor_override": (lambda x: F.avg_pool2d(x, 2, divisor_override=3), image),
    "avg_pool3d, divisor_override": (lambda x: F.avg_pool3d(x, 2, divisor_override=3), cube),
    "embedding_bag, padding_idx": (lambda x: F.embedding_bag(x, table, mode="mean", padding_idx=0), ids),
    "cross_entropy, label_smoothing": (lambda x: F.cross_entropy(x, targets, label_smoothing=0.3), scores),
    "interpolate, scale_factor with antialias": (lambda x: F.interpolate(x, scale_factor=0.7, mode="bilinear", antialias=True), image),
    "interpolate, size with antialias": (lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), image),
    "interpolate, size with antialias and corners": (
        lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True, align_corners=True), image
    ),
    "attention, boolean mask": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=hidden)[0, 0, 1], q),
    "attention, mask of -inf": (lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=infinite)[0, 0, 1], q),
}
same = {}
for name, (function, x) in cases.items():
    expected, found = both(function, x)
    same[name] = torch.allclose(expected, found, rtol=1e-4, atol=1e-5)
    print(f"{name}: the same {same[name]}; torch {expected.flatten()[0]:.4g}, exported {found.flatten()[0]:.4g}")
draws = [both(lambda x: torch.multinomial(x, 4, replacement=False), torch.ones(4))[1].tolist() for _ in range(4)]
print("four of four without replacement, exported:", draws)
holds = [name for name, equal in same.items() if equal] == ["embedding_bag, padding_idx", "interpolate, size with antialias"]
raise SystemExit(not (holds and any(len(set(draw)) < 4 for draw in draws)))
PROGRAM
cd "$folder"
"$folder/venv/bin/python" -W ignore program.py
