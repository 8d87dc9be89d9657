#!/usr/bin/env bash
# The sigmoid of one number has other bits in the last places of a tensor than before, and in a column
#
# Version: torch 2.14.1 on a CPU with AVX2 or AVX-512
# Belief: An activation is a function of each number, so its bits do not depend on where the number stands.
# Seen: Sigmoid, SiLU, GELU, Mish, softplus, exp2 and powers of float32 numbers have other bits where they are computed one by one: in the
#   places that are left over behind the last full vector, in a tensor of few numbers, and in a column. Of 4,096 numbers 2 to 50 %
#   differ so; tanh, exp, log, sin and ReLU do not.
# Means: Scores of members in one batch and one by one, and of a last batch that is shorter, differ in last bits without any product. Where
#   bits matter, evaluate in tensors of one shape and layout.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
import torch.nn.functional as F

if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
    print("not here: it needs AVX2")
    raise SystemExit(3)
torch.manual_seed(0)
x = torch.rand(4096) * 0.98 + 0.01
moves = {"sigmoid": torch.sigmoid, "SiLU": F.silu, "GELU by tanh": lambda x: F.gelu(x, approximate="tanh"), "Mish": F.mish, "softplus": F.softplus, "exp2": torch.exp2, "x ** 1.7": lambda x: x**1.7}
stays = {"tanh": torch.tanh, "exp": torch.exp, "log": torch.log, "sin": torch.sin, "ReLU": torch.relu}
seen = {}
for name, function in {**moves, **stays}.items():
    complete, spread = function(x), torch.empty(4096, 3)
    spread[:, 1] = x
    column = function(spread[:, 1])
    alone = torch.cat([function(each) for each in x.split(1)])
    shifted = function(x[1:])[-15:]  # 4,095 numbers: the last ones do not fill a vector
    seen[name] = [int((complete != other).sum()) for other in (column, alone)]
    print(f"{name}: of 4,096 {seen[name][0]} differ in a column, {seen[name][1]} one by one; of the last 15 of 4,095: {int((complete[-15:] != shifted).sum())}")
raise SystemExit(not (all(seen[name][1] > 20 for name in moves) and not any(any(seen[name]) for name in stays)))
PROGRAM
