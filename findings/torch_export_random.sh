#!/usr/bin/env bash
# Seeds set in a forward pass hold in an exported program once, and Python's random numbers are constants
#
# Version: torch 2.14.1
# Belief: An exported program draws as its module does: by a seed set in the pass, by Python's or numpy's generator, or by
#   torch's.
# Seen: `torch.manual_seed(3)` in the pass is run at the export and is no part of the program: calls of the module are one noise,
#   calls of the program are new ones. A factor by `random` or numpy is the number that was drawn at the export, and a counter of
#   calls stays at 1. `randn` of the global stream is eager's.
# Means: Common random numbers, by which members of a generation are compared, are lost in the exported network, and its noise by
#   Python is one draw. Give noise as an input.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import random

import numpy as np
import torch
from torch import nn


class Seeded(nn.Module):
    def forward(self, x):
        torch.manual_seed(3)
        return x + torch.randn(3)


class Python(nn.Module):
    def forward(self, x):
        return x + random.random()


class Numpy(nn.Module):
    def forward(self, x):
        return x + float(np.random.rand())


class Counted(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return x + self.calls


class Global(nn.Module):
    def forward(self, x):
        return x + torch.randn(3)


x, seen = torch.zeros(3), {}
for kind in (Seeded, Python, Numpy, Counted, Global):
    module = kind()
    program = torch.export.export(kind(), (x,)).module()
    seen[kind.__name__] = tuple(len({tuple(one(x).tolist()) for _ in range(3)}) for one in (module, program))
print("different outputs in three calls, of the module and of the exported program:", seen)
raise SystemExit(seen != {"Seeded": (1, 3), "Python": (3, 1), "Numpy": (3, 1), "Counted": (3, 1), "Global": (3, 3)})
EOF
