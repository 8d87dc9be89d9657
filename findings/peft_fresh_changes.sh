#!/usr/bin/env bash
# A fresh FourierFT or C3A adapter changes the network before anything is trained
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: get_peft_model leaves outputs as they were, since a fresh adapter adds zero.
# Seen: By their defaults FourierFT draws its spectrum from a normal distribution: outputs of at most 0.41 change by 1.5.
#   C3A's change by 0.02, VB-LoRA's by 0.0007. LoRA, DoRA, VeRA, LoKr, BOFT and IA3 change nothing.
# Means: The centre of the first generation is not the pretrained network but one at chance, and the first fitnesses look
#   like a sigma too large. Say init_weights=True for FourierFT, and compare outputs once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from peft import BOFTConfig, C3AConfig, FourierFTConfig, IA3Config, LoKrConfig, LoraConfig, VBLoRAConfig, VeraConfig, get_peft_model
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
    "FourierFT": FourierFTConfig(n_frequency=100, **given),
    "C3A": C3AConfig(block_size=8, **given),
    "VB-LoRA": VBLoRAConfig(r=4, num_vectors=16, vector_length=16, **given),
    "LoRA": LoraConfig(r=8, **given),
    "DoRA": LoraConfig(r=8, use_dora=True, **given),
    "VeRA": VeraConfig(r=8, **given),
    "LoKr": LoKrConfig(r=8, **given),
    "BOFT": BOFTConfig(boft_block_size=8, **given),
    "IA3": IA3Config(feedforward_modules=["b"], **given),
}
changes = {}
with torch.no_grad():
    plain = network()(inputs)
    for name, config in KINDS.items():
        base = network()
        torch.manual_seed(1)
        changes[name] = float((get_peft_model(base, config).eval()(inputs) - plain).abs().max())
        print(f"{name}: {changes[name]:.1e}")
quiet = all(changes[name] < 1e-5 for name in ("LoRA", "DoRA", "VeRA", "LoKr", "BOFT", "IA3"))
raise SystemExit(not (quiet and changes["FourierFT"] > 0.5 and changes["C3A"] > 1e-3 and changes["VB-LoRA"] > 1e-5))
EOF
