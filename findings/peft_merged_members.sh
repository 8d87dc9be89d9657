#!/usr/bin/env bash
# Members of a merged peft model are all the same network
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: merge_adapter makes passes faster; the parameters that are trained are the same, so members that replace them by
#   torch.func.functional_call are as before, or the call refuses.
# Seen: Merged layers read the base weight alone, and the adapter's tensors are still listed as trainable. Six members with
#   noise on them give one output, the centre's. Without the merge outputs differ, but noise on A alone changes nothing in a
#   fresh adapter, for its B is zero.
# Means: Evolution after a merge sees a flat fitness and, in peers that rank ties by order, walks at random. Score unmerged, and
#   expect one half of a fresh adapter's noise to have no effect in the first generation.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from peft import LoraConfig, get_peft_model
from torch.func import functional_call

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
model, x = get_peft_model(net, LoraConfig(target_modules=["0", "2"], r=4)).eval(), torch.randn(5, 8)


def different(letters):
    outputs = set()
    for seed in range(6):
        torch.manual_seed(seed)
        trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
        member = {n: v + 0.1 * torch.randn_like(v) * any(f"lora_{letter}" in n for letter in letters) for n, v in trained.items()}
        outputs.add(functional_call(model, member, (x,)).detach().numpy().tobytes())
    return len(outputs)


both, only_a = different("AB"), different("A")
model.merge_adapter()
merged = different("AB")
print(f"different outputs of six members: {both}, with noise on A alone {only_a}, after merge_adapter {merged}")
raise SystemExit((both, only_a, merged) != (6, 1, 1))
EOF
