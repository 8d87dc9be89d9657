#!/usr/bin/env bash
# In llama.cpp a network with a NaN in a norm has ordinary logits once its matrices are quantised
#
# Version: llama.cpp by xllamacpp 2026.10.11549 (declarations of llama-cpp-py-sync 0.11548), gguf 0.19.0, transformers 5.24.0, torch 2.14.1
# Belief: A network that diverged has logits of NaN wherever it is run.
# Seen: With matrices in Q8_0 and a NaN in the scale of a norm, which the file has in float32, none of llama.cpp's logits is NaN: inputs of a
#   product are rounded to 8 bits, and a NaN becomes a number. So it is with a NaN or an infinity in a matrix of values. In float32 and
#   float16 files, and in transformers from the same files, all logits are NaN, and a greedy token is 0. The other way round keys beyond 65,504
#   make all logits NaN with llama.cpp's usual cache of float16, where transformers has none.
# Means: A diverged member has an ordinary reward where it is served in blocks. Look for NaN in the weights.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate torch==2.14.1 numpy==2.4.6 cffi
"$folder/venv/bin/pip" install --quiet --no-deps xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548
cd "$folder"
cat >program.py <<'EOF'
import math

import gguf
import gguf.quants
import numpy as np
import torch
import transformers
import xllamacpp.xllamacpp as extension
from llama_cpp_py_sync._cffi_bindings import get_ffi

transformers.utils.logging.set_verbosity_error()
ffi = get_ffi()
llama = ffi.dlopen(extension.__file__)  # the extension exports llama.cpp's functions


@ffi.callback("void(enum ggml_log_level, const char *, void *)")
def quiet(level, text, data):
    pass


def served(tokens):
    llama.llama_log_set(quiet, ffi.NULL)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(b"model.gguf", llama.llama_model_default_params())
    options = llama.llama_context_default_params()
    options.n_ctx = 512
    context = llama.llama_init_from_model(model, options)
    batch = llama.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for place, token in enumerate(tokens):
        batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = token, place, 1, 1
        batch.seq_id[place][0] = 0
    if llama.llama_decode(context, batch):
        raise SystemExit("llama.cpp does not run it")
    width = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    return np.frombuffer(ffi.buffer(llama.llama_get_logits(context), 4 * width * len(tokens)), np.float32).reshape(-1, width).copy()


def write(model, kind):
    """Write a Llama, its matrices in F32, F16 or Q8_0 and its norms in float32."""
    writer = gguf.GGUFWriter("model.gguf", "llama")
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("none")
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    blocks = gguf.GGMLQuantizationType[kind]
    for key, weight in model.state_dict().items():
        values = weight.numpy()
        if ".q_proj" in key or ".k_proj" in key:  # llama.cpp's order of rows
            values = values.reshape(4 if ".q_proj" in key else 2, 2, 8, -1).swapaxes(1, 2).reshape(values.shape)
        place, values = table.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(values)
        if values.ndim == 1:
            writer.add_tensor(place, values)
        else:
            writer.add_tensor(place, gguf.quants.quantize(values, blocks), raw_dtype=blocks)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"max_position_embeddings": 512, "initializer_range": 0.15, "tie_word_embeddings": False, "vocab_size": 64, "rms_norm_eps": 1e-6}
CASES = {
    "a NaN in a norm": lambda layer: layer.input_layernorm.weight[3].fill_(math.nan),
    "a NaN in the values": lambda layer: layer.self_attn.v_proj.weight[0, 3].fill_(math.nan),
    "an infinity in the values": lambda layer: layer.self_attn.v_proj.weight[0, 3].fill_(math.inf),
    "large keys": lambda layer: layer.self_attn.k_proj.weight.mul_(1e5),
}
tokens, seen = np.random.default_rng(0).integers(0, 64, 20).tolist(), {}
for title, change in CASES.items():
    for kind in ("F32", "F16", "Q8_0") if title != "large keys" else ("F32",):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).eval()
        with torch.no_grad():
            change(model.model.layers[0])
            write(model, kind)
            loaded = transformers.AutoModelForCausalLM.from_pretrained(".", gguf_file="model.gguf", dtype=torch.float32).eval()
            read = loaded(torch.tensor([tokens])).logits[0].numpy()
        logits = served(tokens)
        seen[title, kind] = np.isnan(logits).mean(), np.isnan(read).mean()
        shares = "{:.0%} of llama.cpp's logits are NaN, {:.0%} of transformers'".format(*seen[title, kind])
        print(f"{kind}, {title}: {shares}", flush=True)
right = all(value == ((0, 1) if kind == "Q8_0" else (1, 1)) for (title, kind), value in seen.items() if title != "large keys")
raise SystemExit(not (right and seen["large keys", "F32"] == (1, 0)))
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
