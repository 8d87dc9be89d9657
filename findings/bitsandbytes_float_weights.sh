#!/usr/bin/env bash
# An 8-bit layer of bitsandbytes takes a float checkpoint as integers, and a copied quantised weight leaves its scales behind
#
# Version: bitsandbytes 0.50.2 (CPU), torch 2.14.1
# Belief: A quantised layer that loads a checkpoint has its weights, quantised, or refuses it.
# Seen: Where the layer is quantised already, `load_state_dict` of float weights casts them to integers: all are 0, the outputs are the bias
#   alone, and nothing is said. Before the layer is moved to its device the same call is right. `weight.copy_(other.weight)` of two
#   4-bit or 8-bit layers copies the numbers and not the scales, so the outputs are neither's.
# Means: A base that is loaded again, a best member that is copied back, is another network without a word. Make a new layer, or compare outputs.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet bitsandbytes==0.50.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2>/dev/null <<'PROGRAM'
import bitsandbytes as bnb
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(8, 64)
first, second = nn.Linear(64, 64), nn.Linear(64, 64)
with torch.no_grad():
    second.weight *= 3


def quantised(source, bits):
    layer = bnb.nn.Linear8bitLt(64, 64, has_fp16_weights=False) if bits == 8 else bnb.nn.Linear4bit(64, 64, quant_type="nf4", compute_dtype=torch.float32)
    layer.load_state_dict(source.state_dict())
    return layer.to("cpu")


def error(layer, source):
    return float((layer(x) - source(x)).norm() / source(x).norm())


layer = quantised(first, 8)
before = error(layer, first)
layer.load_state_dict(second.state_dict())
after = error(layer, second)
print(f"8 bits: error of the layer {before:.3f}; after a float checkpoint was loaded {after:.3f}, weights that are not 0: {int(layer.weight.count_nonzero())}")
holds = before < 0.05 and after > 0.5 and not layer.weight.any() and torch.allclose(layer(x), second.bias.expand(8, 64), atol=1e-5)
for bits in (8, 4):
    one, two = quantised(first, bits), quantised(second, bits)
    usual = error(two, second)
    with torch.no_grad():
        one.weight.copy_(two.weight)
        one.bias.copy_(two.bias)
    copied = error(one, second)
    print(f"{bits} bits: error of the layer {usual:.3f}, of a layer that its weight was copied to {copied:.3f}")
    holds &= usual < 0.2 and copied > 0.5
raise SystemExit(not holds)
PROGRAM
