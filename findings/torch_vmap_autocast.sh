#!/usr/bin/env bash
# Under vmap a convolution stays float32 in autocast on a CPU, and a linear layer and attention give float32, where a loop gives bfloat16
#
# Version: torch 2.14.1, numpy 2.4.6 (a CPU)
# Belief: autocast around vmap, or inside of the function, does for each member what it does in a loop.
# Seen: By functional_call under vmap, over members as over examples, a convolution computes in float32, to the bit what it gives without autocast. A linear
#   layer with a bias and attention round their products, add the bias in float32 and give float32 (torch's tracker knows that of linear layers). The loop
#   gives bfloat16. A linear layer without bias, @ and einsum are bfloat16 in both.
# Means: Members that share a pass have other fitnesses than one by one, by 0.005 of outputs near 1, as large as what a small step does. Times and memory of
#   convolutions by vmap are those of float32. Cast the module to bfloat16 itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import contextlib

import torch
from torch import nn
from torch.func import functional_call, vmap

torch.manual_seed(0)
x = torch.randn(8, 16)
linear, conv, attention = nn.Linear(16, 4), nn.Conv1d(1, 2, 3), nn.MultiheadAttention(16, 2, batch_first=True)
plain = nn.Linear(16, 4, bias=False)
CALLS = {
    "linear without bias": (plain, lambda p: functional_call(plain, p, (x,))),
    "linear": (linear, lambda p: functional_call(linear, p, (x,))),
    "convolution": (conv, lambda p: functional_call(conv, p, (x[:, None],))),
    "attention": (attention, lambda p: functional_call(attention, p, (x[None],) * 3)[0]),
    "@": (linear, lambda p: x @ p["weight"].T),
    "einsum": (linear, lambda p: torch.einsum("bi,oi->bo", x, p["weight"])),
}


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


found, exact = {}, {}
for inside in (False, True):
    for name, (module, call) in CALLS.items():

        def fitness(p, call=call, inside=inside):
            with autocast() if inside else contextlib.nullcontext():
                return call(p)

        members = {key: torch.stack([weight, weight + 0.1]).detach() for key, weight in module.named_parameters()}
        with contextlib.nullcontext() if inside else autocast(), torch.no_grad():
            together = vmap(fitness)(members)
            single = torch.stack([fitness({key: weight[i] for key, weight in members.items()}) for i in range(2)])
        assert single.dtype == torch.bfloat16
        with torch.no_grad():
            exact[name] = torch.equal(together, vmap(call)(members))
        found[name, inside] = together.dtype
        print(f"{name}, autocast {'inside' if inside else 'around'}: vmap {together.dtype}, loop {single.dtype},",
              f"difference {float((together - single).abs().max()):.4f}, as without autocast: {exact[name]}")
assert {name for (name, _), dtype in found.items() if dtype == torch.float32} == {"linear", "convolution", "attention"}
assert {name for (name, _), dtype in found.items() if dtype == torch.bfloat16} == {"linear without bias", "@", "einsum"}
assert [name for name, same in exact.items() if same] == ["convolution"]
examples = {key: weight.detach() for key, weight in linear.named_parameters()}
with autocast():
    assert vmap(lambda row: functional_call(linear, examples, (row,)))(x).dtype == torch.float32
    assert functional_call(linear, examples, (x,)).dtype == torch.bfloat16
PROGRAM
