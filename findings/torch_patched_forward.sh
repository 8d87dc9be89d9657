#!/usr/bin/env bash
# A copy of a module whose `forward` was wrapped runs the original's weights
#
# Version: torch 2.14.1
# Belief: `copy.deepcopy(module)` is a network of its own: its outputs follow its own weights.
# Seen: After `module.forward = torch.compile(module.forward)`, or with a function that calls the old `forward`, the copy with weights
#   of zero has the original's outputs: Python copies functions by reference, and this one holds the original. So does a hook that
#   reads another layer. `functional_call` with other weights is right, as it writes into the original; a copy of `types.MethodType`, of a
#   `functools.partial` over the module and of `module.compile()` is right.
# Means: All members that are copies evaluate the centre: one fitness for each, and nothing is learned. neuro copies functions with
#   what they hold; those that reach the original by a global variable, as in a notebook, were such members, and now are refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import copy
import functools
import types

import torch
from torch import nn
from torch.func import functional_call


def linear():
    module = nn.Linear(1, 1, bias=False)
    nn.init.ones_(module.weight)
    return module


def compiled():
    module = linear()
    module.forward = torch.compile(module.forward, backend="eager")
    return module


def wrapped():
    module = linear()
    forward = module.forward
    module.forward = lambda x: forward(x)
    return module


def method():
    module = linear()
    module.forward = types.MethodType(lambda self, x: x * self.weight, module)
    return module


def partial():
    module = linear()
    module.forward = functools.partial(lambda self, x: x * self.weight, module)
    return module


def in_place():
    module = linear()
    module.compile(backend="eager")
    return module


def hooked():
    module = nn.Sequential(linear(), linear())
    first = module[0]
    module[1].register_forward_hook(lambda part, inputs, output: first.weight * 1.0)
    return module


x, seen = torch.ones(1, 1), {}
for make in (compiled, wrapped, hooked, method, partial, in_place):
    module = make()
    member = copy.deepcopy(module)
    with torch.no_grad():
        for weight in member.parameters():
            weight.zero_()
    called = functional_call(module, {name: torch.zeros(1, 1) for name, _ in module.named_parameters()}, (x,)).item() if make is not hooked else None
    seen[make.__name__] = member(x).item()
    print(f"{make.__name__}: a copy with weights of zero gives {seen[make.__name__]}, functional_call {called}")
raise SystemExit(seen != {"compiled": 1.0, "wrapped": 1.0, "hooked": 1.0, "method": 0.0, "partial": 0.0, "in_place": 0.0})
EOF
"$folder/venv/bin/python" -W ignore program.py
