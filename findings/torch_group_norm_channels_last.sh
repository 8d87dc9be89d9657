#!/usr/bin/env bash
# torch's group norm of channels_last images on a CPU takes the variance as a difference of sums of squares
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: group norm subtracts the mean before it squares, in any order in memory, as batch norm, layer norm and instance norm do.
# Seen: Contiguous images are right to 1e-5. Of channels_last ones the error grows with the square of the mean over the standard deviation: 1e-5 where
#   the mean is 0, 2e-4 at 10 deviations, 0.04 at 100, and beyond that normalised values are of any size. An image of 64 x 64 that is 5.3 everywhere
#   but for its first row is off by 7. channels_last_3d does the same; batch norm and instance norm of the same numbers are right.
# Means: A network with group norm that is run in channels_last, for speed, is another network on drawings, masks, blank margins or unscaled inputs.
#   Equality with contiguous images, tested on normal numbers, does not show it. Keep such networks contiguous on a CPU.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
import torch.nn.functional as F

FORMATS = {4: (torch.contiguous_format, torch.channels_last), 5: (torch.contiguous_format, torch.channels_last_3d)}


def errors(images, norm=lambda x: F.group_norm(x, 4)):
    right = norm(images.double())
    return [float((norm(images.contiguous(memory_format=order)) - right).abs().max()) for order in FORMATS[images.dim()]]


torch.manual_seed(0)
far = {mean: errors(torch.randn(4, 8, 32, 32) + mean) for mean in (0, 10, 100, 1000)}
flat = torch.full((2, 4, 64, 64), 5.3)
flat[:, :, 0] += 0.01 * torch.randn(2, 4, 64)
edge = errors(flat)
volume = errors(torch.randn(2, 8, 4, 16, 16) + 100)
others = {"batch norm": lambda x: F.batch_norm(x, None, None, training=True), "instance norm": F.instance_norm}
near = {name: errors(torch.randn(4, 8, 32, 32) + 100, norm) for name, norm in others.items()}
rows = {f"mean of {mean} deviations": pair for mean, pair in far.items()} | {"flat but for an edge": edge, "volume, mean of 100": volume}
for name, (contiguous, last) in (rows | {f"{name}, mean of 100": pair for name, pair in near.items()}).items():
    print(f"{name}: contiguous {contiguous:.1e}, channels_last {last:.1e}")
right = all(pair[0] < 5e-4 for pair in (*rows.values(), *near.values()))
same = far[0][1] < 1e-5 and all(pair[1] < 1e-3 for pair in near.values())
wrong = far[10][1] > 1e-4 and far[100][1] > 5e-3 and far[1000][1] > 0.3 and edge[1] > 0.5 and volume[1] > 1e-3
raise SystemExit(not (right and same and wrong))
PROGRAM
