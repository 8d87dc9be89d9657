#!/usr/bin/env bash
# A Llama that is cast to bfloat16 loses its places: the error grows with the position, and loading in bfloat16 has none of it
#
# Version: transformers 5.24.0, torch 2.14.1
# Belief: `model.to(torch.bfloat16)` and `from_pretrained(..., dtype=torch.bfloat16)` are one network.
# Seen: `to` rounds the rotary embedding's inverse frequencies too, a buffer that is in no file; loading leaves it in float32. A rounding
#   error of a frequency is multiplied by the position. Two layers of random weights: logits err by 0.03 to 0.05 at positions 128 to 2,047 with
#   weights in bfloat16 and frequencies in float32, and by 0.07, 0.13 and 0.32 at 128, 1,024 and 2,047 after `to`; the most likely token is
#   the float32 network's in 98 % and 94 %.
# Means: A member, a peer or an evaluation that casts the module is another network than the file, for long texts alone. Cast parameters,
#   not modules.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.14.1 transformers==5.24.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - 2> /dev/null <<'EOF'
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
config = LlamaConfig(vocab_size=64, max_position_embeddings=4096, initializer_range=0.1, **sizes)
LlamaForCausalLM(config).save_pretrained("llama")
load = lambda kind: LlamaForCausalLM.from_pretrained("llama", dtype=kind).eval()
tokens = torch.randint(0, 64, (1, 2048))
with torch.no_grad():
    right = load(torch.float32)(tokens).logits[0]
    networks = {"loaded": load(torch.bfloat16), "cast": load(torch.float32).to(torch.bfloat16)}
    kinds = {name: str(network.model.rotary_emb.inv_freq.dtype) for name, network in networks.items()}
    logits = {name: network(tokens).logits[0].float() for name, network in networks.items()}
errors = {name: [float((rows[place] - right[place]).abs().max()) for place in (32, 128, 1024, 2047)] for name, rows in logits.items()}
agree = {name: float((rows.argmax(-1) == right.argmax(-1)).float().mean()) for name, rows in logits.items()}
for name in networks:
    print(f"{name}: frequencies {kinds[name]}, errors at 32, 128, 1024 and 2047 {[round(error, 3) for error in errors[name]]}, same token {agree[name]:.3f}")
fine = max(errors["loaded"]) < 0.1 and kinds == {"loaded": "torch.float32", "cast": "torch.bfloat16"}
raise SystemExit(not (fine and errors["cast"][3] > 3 * errors["loaded"][3] and agree["cast"] < agree["loaded"]))
EOF
