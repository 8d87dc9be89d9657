#!/usr/bin/env bash
# Dropout that stays on in an exported ExecuTorch program is not scaled, and has no seed
#
# Version: executorch 1.5.1 (portable kernels), torch 2.14.1
# Belief: Dropout that is left on for noise or for uncertainty keeps the mean: what stays is divided by 1 - p, exported too.
# Seen: In the exported program what stays is as it was: with p = 0.5 the mean of ones is 0.5, with p = 0.1 it is 0.9. Normal
#   numbers are right. `torch.manual_seed` does nothing to either, two calls differ, and so do two programs.
# Means: Predictions by sampled dropout shrink on the device by 1 - p in each layer, and no noise of an exported program can be
#   drawn again. Give noise as an input.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet executorch==1.5.1 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from executorch.exir import to_edge
from executorch.runtime import Runtime


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def exported(function, *arguments):
    program = to_edge(torch.export.export(Function(function), arguments)).to_executorch()
    loaded = Runtime.get().load_program(program.buffer)
    return [value for value in loaded.load_method("forward").execute(list(arguments))], loaded


ones = torch.ones(100_000)
holds = True
for p in (0.5, 0.1):
    drop = lambda x: torch.nn.functional.dropout(x, p, True)
    (got,), loaded = exported(drop, ones)
    method = loaded.load_method("forward")
    calls = []
    for _ in range(2):
        torch.manual_seed(0)
        calls.append(method.execute([ones])[0].clone())
    print(f"p = {p}: mean {got.mean():.3f}, values {got.unique().tolist()}; torch {drop(ones).mean():.3f} | same seed, same draw: {torch.equal(*calls)}")
    holds &= abs(got.mean().item() - (1 - p)) < 0.01 and got.unique().tolist() == [0, 1] and not torch.equal(*calls)
(normal,), _ = exported(lambda x: torch.randn(100_000) + x[0] * 0, ones)
print(f"normal numbers: mean {normal.mean():.3f}, deviation {normal.std():.3f}")
raise SystemExit(not (holds and abs(normal.std().item() - 1) < 0.02))
EOF
