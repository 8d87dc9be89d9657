#!/usr/bin/env bash
# A LoRA on the embedding of a tied model is another network once it is merged
#
# Version: peft 0.21.2, transformers 5.24.0, torch 2.14.1
# Belief: `merge_and_unload` has the outputs of the adapter, up to rounding.
# Seen: The adapter adds to the embedding alone; the merge adds to the weight, which is the head's too. Logits then differ by more than the largest
#   logit, before and after a save. With the head's own weights (`tie_word_embeddings=False`) they agree to 1e-6.
# Means: What is scored in training is not what is exported: the fitness of the merged network is that of a network that was never a member. Score
#   merged, untie the head, or leave the embedding out.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet peft==0.21.2 transformers==5.24.0 torch==2.14.1 numpy==2.4.6
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore - <<'EOF'
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}
tokens, seen = torch.arange(10)[None], {}
for tied in (True, False):
    torch.manual_seed(0)
    network = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=tied))
    model = get_peft_model(network, LoraConfig(r=4, target_modules=["embed_tokens"])).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.3 * torch.randn_like(parameter))
        adapted = model(tokens).logits
        merged = model.merge_and_unload()(tokens).logits
    seen[tied] = (merged - adapted).abs().max().item(), adapted.abs().max().item()
    print(f"tied {tied}: logits of the adapter up to {seen[tied][1]:.3f}, after the merge they differ by up to {seen[tied][0]:.2e}")
raise SystemExit(not (seen[True][0] > seen[True][1] and seen[False][0] < 1e-5))
EOF
