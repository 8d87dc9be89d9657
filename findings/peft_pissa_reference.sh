#!/usr/bin/env bash
# With PiSSA or OLoRA a disabled adapter does not leave the pretrained network
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: Inside `with model.disable_adapter()` the model is the one before get_peft_model, whatever the adapter: the usual
#   reference of a KL penalty costs no second copy.
# Seen: Both initialisations take the adapter's first product out of the base weights. With the fresh adapter outputs are
#   those from before; with it disabled they differ by 0.30 and 0.25, in a network whose outputs are at most 0.41. With
#   plain LoRA they are the same bits.
# Means: A penalty or a baseline against that reference is measured from a network nobody trained, from the first generation
#   on. Keep the outputs or a copy from before.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from peft import LoraConfig, get_peft_model
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


with torch.no_grad():
    plain, apart = network()(inputs), {}
    for start in (True, "pissa", "olora"):
        config = LoraConfig(target_modules=["a", "b"], r=8, init_lora_weights=start)
        model = get_peft_model(network(), config).eval()
        fresh = float((model(inputs) - plain).abs().max())
        with model.disable_adapter():
            apart[start] = fresh, float((model(inputs) - plain).abs().max())
        print(f"init_lora_weights={start}: fresh {fresh:.1e}, disabled {apart[start][1]:.3f} from the network before; it has at most {plain.abs().max():.2f}")
fine = all(fresh < 1e-5 for fresh, _ in apart.values()) and apart[True][1] == 0
raise SystemExit(not (fine and apart["pissa"][1] > 0.1 and apart["olora"][1] > 0.1))
EOF
