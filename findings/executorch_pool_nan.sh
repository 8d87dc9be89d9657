#!/usr/bin/env bash
# Max pooling loses a NaN in an exported ExecuTorch program, where every other operation keeps it
#
# Version: executorch 1.5.1 (portable kernels), torch 2.14.1
# Belief: An exported program has the numbers of the module, and a network that diverged has NaN outputs in both.
# Seen: ReLU, clamp, maximum, `amax`, argmax and softmax treat a NaN as torch does. Max pooling takes the NaN only where it comes
#   first in its window: with 1 before it the result is 1. The sign of a NaN is NaN, where torch has 0.
# Means: A small convolutional network that diverged has an ordinary fitness on the device and none on the host. Check weights
#   for NaN before the export, or pool with `amax`.
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


nan = float("nan")
values = torch.tensor([1.0, nan, 2.0, 0.5])
seen = {}
for name, function in {
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(-1, 1),
    "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
    "amax": lambda x: x.amax(0),
    "argmax": lambda x: x.argmax(0),
    "softmax": lambda x: x.softmax(0),
    "pool, NaN last": lambda x: torch.nn.functional.max_pool2d(x.reshape(1, 1, 2, 2)[..., :1, :], (1, 2)),
    "pool, NaN first": lambda x: torch.nn.functional.max_pool2d(x.flip(0).reshape(1, 1, 2, 2)[..., 1:, :], (1, 2)),
    "pool, NaN in the middle": lambda x: torch.nn.functional.max_pool2d(x.reshape(1, 1, 2, 2), 2),
    "sign": torch.sign,
}.items():
    (got,), _ = exported(function, values)
    expected = function(values)
    seen[name] = torch.equal(got.double().nan_to_num(-9.0), expected.double().nan_to_num(-9.0))
    print(f"{name}: exported {got.flatten().tolist()}, torch {expected.flatten().tolist()}")
raise SystemExit([name for name, same in seen.items() if not same] != ["pool, NaN last", "pool, NaN in the middle", "sign"])
EOF
