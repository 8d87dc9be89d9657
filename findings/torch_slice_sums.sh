#!/usr/bin/env bash
# With one thread the sum of two columns of three stops at 33.5 millions in torch, where the sum of their copy is 40 millions
#
# Version: torch 2.14.1, CPU, float32, one thread
# Belief: `sum` and `mean` of a tensor do not depend on how it lies in memory, but for the last bits: torch adds up by halves.
# Seen: For 20 million rows of three ones `x[:, :2].sum()` is 33,554,432 and the mean 0.839, where `x[:, :2].contiguous()` and
#   `x[:, :2].sum(0).sum()` are right, as are all columns and one column. For uniform numbers the error is 1e-6 to 1e-4 of the sum
#   where the copy's is 1e-7, also for `x[:, :9]` of a million rows of ten. Average pooling over 20 million ones is 0.839 too, with any
#   number of threads. With two threads, which add up a half each, the sum of ones is right and that of uniform numbers is 8e-6 off.
# Means: A loss or an accuracy over some columns, or over all tokens but the first, loses digits that neighbours in a ranking differ in,
#   and workers with one thread each rank other members first than a process with two. Make it contiguous, or sum over one dimension
#   at a time.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
ones = torch.ones(20_000_000, 3)
part = ones[:, :2]
copy = part.contiguous()
sums = {"slice": part.sum(), "copy": copy.sum(), "by dimensions": part.sum(0).sum(), "one column twice": 2 * ones[:, 1].sum()}
print("sums of 40,000,000 ones:", {name: value.item() for name, value in sums.items()})
print("means: slice", part.mean().item(), "copy", copy.mean().item())
pooled = F.avg_pool2d(torch.ones(1, 1, 5000, 4000), (5000, 4000)).item()
print("average pooling of ones:", pooled)
stopped = sums.pop("slice") == 2**25 and part.mean() < 0.84 and all(value == 4e7 for value in sums.values()) and pooled < 0.84
torch.set_num_threads(2)
halves = part.sum().item()
torch.set_num_threads(1)
print("the slice with two threads:", halves)
stopped = stopped and halves == 4e7
del ones, part, copy
errors = []
for rows, columns in ((20_000_000, 3), (1_000_000, 10), (100_000, 100)):
    x = torch.rand(rows, columns)
    part = x[:, :-1]
    right = part.double().sum().item()
    errors.append((abs(part.sum().item() / right - 1), abs(part.contiguous().sum().item() / right - 1)))
    print(f"{rows} rows of {columns} uniform numbers without the last column: slice {errors[-1][0]:.1e}, copy {errors[-1][1]:.1e}")
raise SystemExit(not (stopped and all(part > 2e-6 and copy < 5e-7 for part, copy in errors)))
EOF
"$folder/venv/bin/python" -W ignore program.py
