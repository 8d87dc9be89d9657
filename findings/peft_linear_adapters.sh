#!/usr/bin/env bash
# The sum of two LoRA adapters in peft is by default not the sum of what they add to the weights
#
# Version: peft 0.21.2, torch 2.14.1
# Belief: `add_weighted_adapter(["a", "b"], [1.0, 1.0], "both", combination_type="linear")` adds to each weight what a and b add.
# Seen: It adds up the two factors, so that their products also cross: of two random adapters the sum is off by as much as it is large, and so
#   are the mean and the difference. "svd" keeps the larger rank and is 50 % off; "ties" and "dare_linear" are further off.
#   "cat" is right to rounding, with the ranks added. One adapter alone with a weight of 0.5 or -1 is right in all.
# Means: A mean of adapters that were trained apart, or of the members of a population, is another network. Take "cat", or merge the
#   weights.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 torch==2.14.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PROGRAM'
import torch
from peft import LoraConfig, get_peft_model

torch.manual_seed(0)
config = LoraConfig(r=4, target_modules=["0"], init_lora_weights=False)
model = get_peft_model(torch.nn.Sequential(torch.nn.Linear(64, 64)), config, "a")
model.add_adapter("b", config)
layer = model.base_model.model[0]
a, b = layer.get_delta_weight("a"), layer.get_delta_weight("b")
errors = {}
for kind in ("linear", "svd", "ties", "dare_linear", "cat"):
    for weights in ((1.0, 1.0), (0.5, 0.5), (1.0, -1.0)):
        name = f"{kind}{weights}".replace(".", "_")
        model.add_weighted_adapter(["a", "b"], list(weights), name, combination_type=kind, density=0.5)
        right = weights[0] * a + weights[1] * b
        errors[kind, weights] = float((layer.get_delta_weight(name) - right).norm() / right.norm())
    model.add_weighted_adapter(["a"], [-1.0], f"{kind}alone", combination_type=kind, density=1.0)
    errors[kind, "alone"] = float((layer.get_delta_weight(f"{kind}alone") + a).norm() / a.norm())
    print(f"{kind}: error of the sum {errors[kind, (1.0, 1.0)]:.2g}, of the mean {errors[kind, (0.5, 0.5)]:.2g}, of the difference {errors[kind, (1.0, -1.0)]:.2g}, of one alone {errors[kind, 'alone']:.1g}")
holds = all(errors["linear", key] > 0.7 for key in ((1.0, 1.0), (0.5, 0.5), (1.0, -1.0))) and errors["svd", (1.0, 1.0)] > 0.3
raise SystemExit(not (holds and max(value for (kind, _), value in errors.items() if kind == "cat") < 1e-5 and errors["linear", "alone"] < 1e-5))
PROGRAM
