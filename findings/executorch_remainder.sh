#!/usr/bin/env bash
# The remainder of negative integers has the other sign in an exported ExecuTorch program
#
# Version: executorch 1.5.1 (portable kernels), torch 2.14.1
# Belief: `x % n` of an index is Python's and torch's: it has the sign of n, so that -1 % 5 is 4.
# Seen: For integers the exported program has C's remainder: -1 % 5 is -1, 7 % -2 is 1. For floats it is torch's, and so is floor
#   division of both, so that `x // n * n + x % n` is no longer x.
# Means: A hash, a wrapped grid position or a relative position that is below zero reads another row on the device than on the
#   host. Take `torch.where(r < 0, r + n, r)`, or the remainder of floats.
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


x, n = torch.tensor([-1, -7, 7, 7]), torch.tensor([5, 2, -2, 2])
holds = True
for name, a, b in (("integers", x, n), ("int32", x.int(), n.int()), ("floats", x.float(), n.float())):
    (got, floor), _ = exported(lambda a, b: (a % b, a // b), a, b)
    print(f"{name}: exported % {got.tolist()} and // {floor.tolist()}, torch {(a % b).tolist()} and {(a // b).tolist()}")
    holds &= torch.equal(floor, a // b) and (got.tolist() == [-1, -1, 1, 1] if name != "floats" else torch.equal(got, a % b))
(wrapped,), _ = exported(lambda a: a % 5, x)
print("by a constant:", wrapped.tolist(), "torch", (x % 5).tolist())
raise SystemExit(not (holds and wrapped.tolist() == [-1, -2, 2, 2]))
EOF
