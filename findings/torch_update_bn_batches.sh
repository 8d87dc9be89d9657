#!/usr/bin/env bash
# `update_bn` sets other statistics by how the data are cut into batches, and a last batch of two counts as one of 64
#
# Version: torch 2.14.1, numpy 2.4.6
# Belief: After `torch.optim.swa_utils.update_bn(loader, model)` batch norm has the mean and the variance of the data in the loader.
# Seen: It has the mean of the batches' means and of the variances within batches. The numbers 0 to 255 have a variance of 5,483;
#   in order, in batches of 64, it is 347. With a last batch of two (10 and 30) behind 192 standard normal numbers the mean is 5.0,
#   where it is 0.2, and the variance 51 where it is 6. The same data shuffled, in equal batches, are right to some percent.
# Means: Networks that are averaged, or trained without statistics, are evaluated as others where the loader is sorted by class
#   or its last batch is small. Give it `shuffle=True, drop_last=True`, or one batch.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from torch.optim.swa_utils import update_bn


def statistics(data, size):
    norm = torch.nn.BatchNorm1d(1)
    update_bn(data.split(size), torch.nn.Sequential(norm))
    return float(norm.running_mean), float(norm.running_var)


torch.manual_seed(0)
ordered = torch.arange(256.0)[:, None]
tail = torch.cat([torch.randn(192, 1), torch.tensor([[10.0], [30.0]])])
shuffled = ordered[torch.randperm(256)]
for name, data in {"in order": ordered, "shuffled": shuffled, "a last batch of two": tail}.items():
    print(name, "data:", float(data.mean()), float(data.var()), "update_bn:", *statistics(data, 64), "one batch:", *statistics(data, 256))
right = abs(statistics(ordered, 256)[1] / 5482.7 - 1) < 0.001 and abs(statistics(shuffled, 64)[1] / 5482.7 - 1) < 0.1
raise SystemExit(statistics(ordered, 64)[1] > 350 or statistics(tail, 64)[0] < 4 or statistics(tail, 64)[1] < 40 or not right)
EOF
