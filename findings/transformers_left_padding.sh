#!/usr/bin/env bash
# A GPT-2 with left padding and a mask has other logits than without padding
#
# Version: transformers 5.24.0, torch 2.14.1
# Belief: An attention mask hides padding: the logits of the text are those of the text alone. generate works so.
# Seen: With four positions of left padding logits of a random GPT-2 differ by more than half of the largest one, since
#   forward counts positions from the padding's first; generate counts from the mask, forward does not. OPT does count, a
#   Llama's rotations depend on distances alone, so that its logits agree to 1e-6. Right padding is right in all three.
# Means: A likelihood as a fitness, or a reward model's score, depends on the longest text of the batch: other batches, other
#   ranking. Pass position_ids = (mask.cumsum(1) - 1).clamp(min=0), or pad on the right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.14.1 numpy==2.4.6
cat >"$folder/program.py" <<'EOF'
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50, **ends}
models = {
    "GPT-2": lambda: GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=50, n_positions=64, **ends)),
    "OPT": lambda: OPTForCausalLM(OPTConfig(ffn_dim=64, word_embed_proj_dim=32, **small)),
    "Llama": lambda: LlamaForCausalLM(LlamaConfig(intermediate_size=64, **small)),
}
torch.manual_seed(0)
text, padding = torch.randint(3, 50, (1, 6)), torch.full((1, 4), 2)
ones, zeros, apart = torch.ones(1, 6, dtype=torch.long), torch.zeros(1, 4, dtype=torch.long), {}
for name, build in models.items():
    net = build().eval()
    with torch.no_grad():
        alone = net(text).logits
        left, mask = torch.cat([padding, text], 1), torch.cat([zeros, ones], 1)
        shifted = net(left, attention_mask=mask).logits[:, 4:]
        right = net(torch.cat([text, padding], 1), attention_mask=torch.cat([ones, zeros], 1)).logits[:, :6]
        given = net(left, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits[:, 4:]
    apart[name] = [float((one - alone).abs().max() / alone.abs().max()) for one in (shifted, right, given)]
    parts = [f"{part:.1e}" for part in apart[name]]
    print(f"{name}: logits differ by (share of the largest): left {parts[0]}, right {parts[1]}, left with position_ids {parts[2]}")
same = max(*apart["Llama"], *apart["OPT"], *apart["GPT-2"][1:])
raise SystemExit(not (apart["GPT-2"][0] > 0.3 and same < 1e-4))
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore "$folder/program.py"
