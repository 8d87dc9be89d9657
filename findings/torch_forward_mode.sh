#!/usr/bin/env bash
# Forward-mode and reverse-mode derivatives are two numbers where `no_grad`, padding rows, a clamped variance or a product with a zero comes in
#
# Version: torch 2.14.1, `torch.func.jvp` and `torch.func.grad`
# Belief: `jvp` along a coordinate is that coordinate of the gradient.
# Seen: `no_grad` inside of a function stops `grad` and not `jvp` (a derivative of 2 in place of 0; `detach` stops both). The row of
#   `padding_idx` has a derivative of 1 by jvp and 0 by grad, and `scale_grad_by_freq` is not in jvp. `gaussian_nll_loss` with a
#   variance below its eps has 5e5 by grad and 0 by jvp. `scatter_reduce` with products: a 0 in one group makes jvp 0 in the others too,
#   where grad is right. `fmax(x, nan)` is x, with a derivative of 1 by grad and 0 by jvp. PReLU at 0 has its slope by grad and 1 by
#   jvp, and of several numbers written to one place grad counts all, jvp the last one.
# Means: Training by forward gradients follows another function than back-propagation does: targets and statistics under `no_grad` are
#   differentiated, padding rows move. Write `detach` where a gradient shall stop.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import torch
from torch.func import grad, jvp
from torch.nn import functional as F

nan = float("nan")


def no_grad(x):
    with torch.no_grad():
        target = x * 2
    return target.sum()


CASES = {
    "no_grad": (no_grad, [3.0]),
    "detach": (lambda x: (x.detach() * 2).sum(), [3.0]),
    "padding row": (lambda x: F.embedding(torch.tensor([0]), x.reshape(1, 1), padding_idx=0).sum(), [3.0]),
    "row used twice, scale_grad_by_freq": (
        lambda x: F.embedding(torch.tensor([0, 0]), x.reshape(1, 1), scale_grad_by_freq=True).sum(),
        [3.0],
    ),
    "variance below eps": (lambda x: F.gaussian_nll_loss(torch.zeros(1), torch.zeros(1), x), [1e-9]),
    "product of a group beside one with zeros": (
        lambda x: torch.ones(2).scatter_reduce(0, torch.tensor([1, 0, 0]), torch.cat([x, torch.zeros(2)]), "prod")[1],
        [2.0],
    ),
    "fmax with nan": (lambda x: torch.fmax(x, torch.tensor([nan])).sum(), [3.0]),
    "PReLU at 0": (lambda x: F.prelu(x, torch.tensor([0.3])).sum(), [0.0]),
    "first of two in one place": (
        lambda x: torch.zeros(1).index_put((torch.tensor([0, 0]),), torch.cat([x, torch.ones(1)])).sum(),
        [5.0],
    ),
    "maximum of equals": (lambda x: torch.cat([x, torch.ones(1)]).max(), [1.0]),
}
seen = {}
for name, (function, start) in CASES.items():
    x = torch.tensor(start)
    seen[name] = jvp(function, (x,), (torch.ones(1),))[1].item(), grad(function)(x).item()
    print(f"{name}: {seen[name][0]:.4g} by jvp, {seen[name][1]:.4g} by grad")
same = {name for name, (forward, reverse) in seen.items() if forward == reverse}
raise SystemExit(not (same == {"detach", "maximum of equals"} and seen["no_grad"] == (2.0, 0.0)))
EOF
"$folder/venv/bin/python" -W ignore program.py
