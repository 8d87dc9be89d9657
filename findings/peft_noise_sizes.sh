#!/usr/bin/env bash
# One sigma moves a peft model's outputs ten thousand times as far with DeLoRA as with AdaLoRA
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: Adapters are small corrections around the pretrained network, so noise of 0.01 on what is trained is a small step,
#   and a tenth of it a tenth of the step.
# Seen: From fresh adapters, noise of 0.01 moves outputs by 0.00001 with AdaLoRA, 0.004 with LoRA, 0.014 with rank-
#   stabilised LoRA and 0.17 with DeLoRA. DeLoRA divides by norms of weights that begin at 0, so noise of 0.001 moves as
#   far: no step is small.
# Means: A sigma that suits one kind trains nothing, or loses the pretrained network in each member, with another. Measure
#   the outputs' change at the start; with DeLoRA set B to something else than 0 first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from peft import AdaLoraConfig, DeloraConfig, LoraConfig, get_peft_model
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.b(torch.tanh(self.a(x)))))


inputs = torch.randn(16, 32, generator=torch.Generator().manual_seed(0))


def network():
    torch.manual_seed(0)
    return Net().eval()


given = {"target_modules": ["a", "b"]}
KINDS = {
    "AdaLoRA": AdaLoraConfig(total_step=100, **given),
    "LoRA": LoraConfig(r=16, **given),
    "rsLoRA": LoraConfig(r=16, use_rslora=True, **given),
    "DeLoRA": DeloraConfig(r=8, **given),
}


def change(config, sigma):
    model = get_peft_model(network(), config).eval()
    noise = torch.Generator().manual_seed(5)
    with torch.no_grad():
        before = model(inputs)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(sigma * torch.randn(parameter.shape, generator=noise))
        return float((model(inputs) - before).pow(2).mean().sqrt())


changes = {name: (change(config, 0.01), change(config, 0.001)) for name, config in KINDS.items()}
for name, (large, small) in changes.items():
    print(f"{name}: outputs move by {large:.6f} for sigma 0.01 and {small:.6f} for 0.001")
far = changes["DeLoRA"][0] > 3000 * changes["AdaLoRA"][0] and changes["rsLoRA"][0] > 3 * changes["LoRA"][0]
raise SystemExit(not (far and abs(changes["DeLoRA"][0] / changes["DeLoRA"][1] - 1) < 0.1 and changes["LoRA"][0] > 8 * changes["LoRA"][1]))
EOF
