#!/usr/bin/env bash
# Counters, seeds and masks of a model are averaged by `AveragedModel(use_buffers=True)`, and stay near what they were
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: With buffers, an average has the model's integers, or refuses them.
# Seen: A counter that goes from 0 to 50 in five updates is 17 in the average with a decay of 0.9, batch norm's `num_batches_tracked` 1
#   instead of 5. A seed above 2^40 that grows by 1 in each update does not move, and a mask of booleans stays the first one.
#   The default equal average refuses booleans, and takes integers.
# Means: The network that is evaluated draws from an old seed, masks other weights and, with integer weights in buffers, has weights
#   that no training gave. Copy buffers that are not floats after each update.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("count", torch.tensor(0))
        self.register_buffer("seed", torch.tensor(2**40))
        self.register_buffer("mask", torch.tensor([True, False]))


model = Model()
average = AveragedModel(model, use_buffers=True, multi_avg_fn=get_ema_multi_avg_fn(0.9))
for _ in range(5):
    model.count += 10
    model.seed += 1
    model.mask = ~model.mask
    model.norm.num_batches_tracked += 1
    average.update_parameters(model)
seen = {}
for name, module in {"model": model, "average": average.module}.items():
    seen[name] = int(module.count), int(module.seed - 2**40), module.mask.tolist(), int(module.norm.num_batches_tracked)
    print(name, "count, seed - 2**40, mask, batches:", *seen[name])
later = seen["average"]
raise SystemExit(seen["model"] != (50, 5, [False, True], 5) or later[0] > 30 or later[1] > 1 or later[2][0] is False or later[3] > 2)
EOF
