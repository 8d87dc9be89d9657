#!/usr/bin/env bash
# A float32 cache is a float16 one in llama.cpp where flash attention is on, as it is by default, and GELU is a table of float16
#
# Version: llama.cpp by xllamacpp 2026.10.11549 (declarations of llama-cpp-py-sync 0.11548), gguf 0.19.0, transformers 5.24.0, torch 2.14.1
# Belief: A float32 file with `type_k` and `type_v` of float32 is computed in float32.
# Seen: On a CPU its logits are those of a float16 cache, to the bit, and off by some thousandths of their deviation; with flash attention
#   turned off a float32 cache is right to 1e-5. A network with GELU is off by a thousandth in any case, as its GELU is read from a table of
#   65,536 float16 numbers: inputs that differ by less than 5e-4 of their size have one output.
# Means: Fitness through llama.cpp has steps: the two members of a pair with a small sigma tie, or differ by rounding. Turn flash attention
#   off, and score networks with GELU elsewhere, or take a larger sigma.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 torch==2.14.1 numpy==2.4.6 cffi
"$folder/venv/bin/pip" install --quiet --no-deps xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548
cd "$folder"
cat >program.py <<'EOF'
import gguf
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


def served(tokens, cache, flash):
    """Logits with a cache of type 0 (float32) or 1 (float16), and flash attention -1 (by default), 0 (off) or 1."""
    llama.llama_log_set(quiet, ffi.NULL)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(b"model.gguf", llama.llama_model_default_params())
    options = llama.llama_context_default_params()
    options.n_ctx, options.type_k, options.type_v = 512, cache, cache
    if flash != -1:
        options.flash_attn_type = flash
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


def write(model, name):
    writer = gguf.GGUFWriter("model.gguf", name)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6) if name == "llama" else writer.add_layer_norm_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(64)
    writer.add_tokenizer_model("none")
    table = gguf.get_tensor_name_map({text: kind for kind, text in gguf.MODEL_ARCH_NAMES.items()}[name], 2)
    for key, weight in model.state_dict().items():
        values = weight.numpy()
        if name == "llama" and (".q_proj" in key or ".k_proj" in key):  # llama.cpp's order of rows
            values = values.reshape(4 if ".q_proj" in key else 2, 2, 8, -1).swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(table.get_name(key, try_suffixes=(".weight", ".bias")), np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"max_position_embeddings": 512, "initializer_range": 0.15, "tie_word_embeddings": False, "vocab_size": 64}
tokens, seen = np.random.default_rng(0).integers(0, 64, 200).tolist(), {}
for kind, name, more in (("Llama", "llama", {"rms_norm_eps": 1e-6}), ("Starcoder2", "starcoder2", {"sliding_window": None})):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, bos_token_id=1, eos_token_id=2, **more)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    write(model, name)
    with torch.no_grad():
        source = model(torch.tensor([tokens])).logits[0].numpy()
    results = {(cache, flash): served(tokens, cache, flash) for cache in (0, 1) for flash in (-1, 0, 1)}
    for (cache, flash), logits in results.items():
        error = seen[name, cache, flash] = abs(logits - source).max() / source.std()
        print(f"{kind}, cache float{32 >> cache}, flash attention {('off', 'on', 'by default')[flash]}: off by {error:.1e} deviations")
    same = [np.array_equal(results[0, flash], results[1, flash]) for flash in (-1, 1)]
    print("with flash attention both caches give the same bits:", same)
    seen[name] = all(same)
right = seen["llama"] and seen["llama", 0, 0] < 1e-4 < 1e-3 < seen["llama", 0, -1] and seen["starcoder2", 0, 0] > 3e-4
raise SystemExit(not right)
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
