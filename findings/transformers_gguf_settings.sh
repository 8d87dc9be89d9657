#!/usr/bin/env bash
# transformers leaves the scaling of positions out of GGUF files, so a Llama 3.1 is another network
#
# Version: transformers 5.24.0, gguf 0.19.0, torch 2.14.1
# Belief: `from_pretrained(..., gguf_file=...)` gives the network that was written, up to the rounding of its blocks.
# Seen: Of a float32 file of a tiny Llama without scaling all logits are the source's. With the factors of Llama 3
#   (`rope_freqs.weight`), or with linear scaling by 4, they are off by several times their deviation; the config says `default`,
#   and nothing is logged but at level info. The caps of a Gemma 2 (`attn_logit_softcapping`) are transformers' defaults, whatever
#   the file says.
# Means: A model that is trained from its GGUF file is not the one that is served from it, most at later positions, so a short
#   test is nearly right. Load the folder with `config.json`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate torch==2.14.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'EOF'
import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

PLACES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.0.self_attn.q_proj": "blk.0.attn_q",
    "model.layers.0.self_attn.k_proj": "blk.0.attn_k",
    "model.layers.0.self_attn.v_proj": "blk.0.attn_v",
    "model.layers.0.self_attn.o_proj": "blk.0.attn_output",
    "model.layers.0.mlp.gate_proj": "blk.0.ffn_gate",
    "model.layers.0.mlp.up_proj": "blk.0.ffn_up",
    "model.layers.0.mlp.down_proj": "blk.0.ffn_down",
    "model.layers.0.input_layernorm": "blk.0.attn_norm",
    "model.layers.0.post_attention_layernorm": "blk.0.ffn_norm",
}


def error(rope, write):
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = LlamaConfig(**sizes, max_position_embeddings=256, initializer_range=0.3, rope_parameters=rope)
    model = LlamaForCausalLM(config).eval()
    writer = gguf.GGUFWriter("model.gguf", "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(32)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10_000.0)
    write(writer, model)
    for name, place in PLACES.items():
        values = model.state_dict()[f"{name}.weight"].numpy()
        if name.endswith(("q_proj", "k_proj")):  # as llama.cpp has their rows
            values = values.reshape(4, 2, 4, 32).swapaxes(1, 2).reshape(32, 32)
        writer.add_tensor(f"{place}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = AutoModelForCausalLM.from_pretrained(".", gguf_file="model.gguf", dtype=torch.float32).eval()
    tokens = torch.arange(100)[None] % 32
    with torch.no_grad():
        wanted, logits = model(tokens).logits, read(tokens).logits
    return float((logits - wanted).abs().max() / wanted.std()), read.config.rope_parameters["rope_type"]


def linear(writer, model):
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(4.0)


def factors(writer, model):
    plain = 1 / 10_000.0 ** (torch.arange(0, 8, 2) / 8)
    writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy().astype(np.float32))


base = {"rope_theta": 10_000.0}
llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
seen = {
    "plain": error(base | {"rope_type": "default"}, lambda writer, model: None),
    "linear": error(base | {"rope_type": "linear", "factor": 4.0}, linear),
    "Llama 3": error(base | llama3, factors),
}
print("largest error of a logit over their deviation, and the scaling in the config:", seen)
kinds = {kind for _, kind in seen.values()}
raise SystemExit(not (seen["plain"][0] < 1e-4 and min(seen["linear"][0], seen["Llama 3"][0]) > 1 and kinds == {"default"}))
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
