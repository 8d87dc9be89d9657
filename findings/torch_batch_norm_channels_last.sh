#!/usr/bin/env bash
# torch's batch norm of channels_last images on a CPU adds up a channel's values one after the other in float32
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: channels_last is an order in memory: batch norm is the same function, to the last bits of float32, and faster.
# Seen: Of contiguous images normalised values are right to 1e-6. Of channels_last ones the error grows with the values of a channel (examples x
#   height x width): 8e-4 for 16 images of 224 x 224, 7e-3 for 64. Of 40 images of 1024 x 1024 with a mean of 1 the running mean becomes 0.93 and the
#   variance 0.90, as a sum in float32 stands still at 2**24; normalised values are off by 0.35. Each thread adds up a share, so that more threads
#   have smaller errors: one thread here.
# Means: Members of a population that are scored in channels_last, for speed, are scored as other networks than those that run in contiguous
#   order. Keep large images contiguous before a batch norm in training mode, or compare one batch with float64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
errors, means = {}, {}
for examples, channels, side in ((16, 8, 224), (64, 4, 224), (40, 2, 1024)):
    torch.manual_seed(0)
    images = torch.randn(examples, channels, side, side) + 1
    mean, variance = (value(images.double(), (0, 2, 3)) for value in (torch.mean, lambda x, dims: x.var(dims, unbiased=False)))
    right = (images[:1].double() - mean.view(1, -1, 1, 1)) / (variance.view(1, -1, 1, 1) + 1e-5).sqrt()
    for order in (torch.contiguous_format, torch.channels_last):
        running = torch.zeros(channels), torch.zeros(channels)
        made = F.batch_norm(images.contiguous(memory_format=order), *running, training=True, momentum=1.0)
        key = examples, side, order
        errors[key], means[key] = float((made[:1].double() - right).abs().max()), float(running[0][0])
        print(f"{examples} images of {side} x {side}, {order}: greatest error {errors[key]:.1e}, mean {means[key]:.4f}, "
              f"variance {float(running[1][0]):.4f}")
exact = all(error < 1e-5 for (_, _, order), error in errors.items() if order is torch.contiguous_format)
last = torch.channels_last
raise SystemExit(not (exact and errors[16, 224, last] > 1e-4 and errors[64, 224, last] > 2e-3 and means[40, 1024, last] < 0.95))
PROGRAM
