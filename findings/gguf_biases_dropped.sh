#!/usr/bin/env bash
# transformers reads a GGUF file without its biases, its base of positions or its share of turned numbers; llama.cpp reads them
#
# Version: transformers 5.24.0, gguf 0.19.0, llama.cpp by xllamacpp 2026.10.11549 (declarations of llama-cpp-py-sync 0.11548), torch 2.14.1
# Belief: A float32 GGUF file that loads without a warning is the network that was written.
# Seen: Of one file llama.cpp has the source's logits to 1e-3 or better. transformers' are off by several times their deviation for a Llama
#   with biases (`attention_bias`, `mlp_bias`), a Starcoder2 with another base than 10,000, and a Phi-3 or Nemotron that turns another share
#   of its numbers than the class's default, as Phi-4-mini (three quarters) does. Without these it has the source's logits, to the bit.
# Means: What is tuned from the file is another network than the one that is served from it. Compare the logits with llama.cpp's, or load the
#   folder with `config.json`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate torch==2.14.1 numpy==2.4.6 cffi
"$folder/venv/bin/pip" install --quiet --no-deps xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548
cd "$folder"
cat >program.py <<'EOF'
import gguf
import numpy as np
import torch
import transformers
import xllamacpp.xllamacpp as extension
from llama_cpp_py_sync._cffi_bindings import get_ffi

transformers.utils.logging.set_verbosity_warning()
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
    options.n_ctx, options.type_k, options.type_v, options.flash_attn_type = 512, 0, 0, 0  # a float32 cache
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
    c = model.config
    writer = gguf.GGUFWriter("model.gguf", name)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(2)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    if name in ("starcoder2", "nemotron"):
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(16 * c.rope_parameters.get("partial_rotary_factor", 1)))
    writer.add_vocab_size(c.vocab_size)
    writer.add_tokenizer_model("none")
    if name == "phi3":
        writer.add_rope_scaling_orig_ctx_len(512)
    table = gguf.get_tensor_name_map({text: kind for kind, text in gguf.MODEL_ARCH_NAMES.items()}[name], 2)
    for key, weight in model.state_dict().items():
        values, place = weight.numpy(), table.get_name(key, try_suffixes=(".weight", ".bias"))
        if name == "llama" and (".q_proj" in key or ".k_proj" in key):  # llama.cpp's order of rows
            values = values.reshape(4 if ".q_proj" in key else 2, 2, 8, -1).swapaxes(1, 2).reshape(values.shape)
        if name == "nemotron" and "norm.weight" in place:
            values = values + 1
        writer.add_tensor(place, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rope(base=10000.0, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **more}}


SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"max_position_embeddings": 512, "initializer_range": 0.15, "tie_word_embeddings": False, "pad_token_id": 0}
CASES = {  # vocabularies are the classes' own where the file's is not read
    "Llama": ("Llama", "llama", {"vocab_size": 64}),
    "Llama, biases of the attention": ("Llama", "llama", {"vocab_size": 64, "attention_bias": True}),
    "Llama, biases of the rest": ("Llama", "llama", {"vocab_size": 64, "mlp_bias": True}),
    "Starcoder2": ("Starcoder2", "starcoder2", {"vocab_size": 49152, "sliding_window": None, **rope()}),
    "Starcoder2, base 1e6": ("Starcoder2", "starcoder2", {"vocab_size": 49152, "sliding_window": None, **rope(1e6)}),
    "Phi-3": ("Phi3", "phi3", {"vocab_size": 32064}),
    "Phi-3, three quarters turned": ("Phi3", "phi3", {"vocab_size": 32064, **rope(partial_rotary_factor=0.75)}),
    "Nemotron": ("Nemotron", "nemotron", {"vocab_size": 64}),
    "Nemotron, a quarter turned": ("Nemotron", "nemotron", {"vocab_size": 64, **rope(partial_rotary_factor=0.25)}),
}
tokens, seen = np.random.default_rng(0).integers(0, 64, 100).tolist(), {}
for title, (kind, name, more) in CASES.items():
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**SIZES, **more)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter)) if parameter.dim() == 1 else None
        write(model, name)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(".", gguf_file="model.gguf", dtype=torch.float32).eval()
        source, read = (network(torch.tensor([tokens])).logits[0].numpy() for network in (model, loaded))
    seen[title] = abs(served(tokens) - source).max() / source.std(), abs(read - source).max() / source.std()
    print(f"{title}: logits off by {seen[title][0]:.1e} deviations in llama.cpp, by {seen[title][1]:.1e} in transformers", flush=True)
right = all(a < 3e-3 and (b > 1 if "," in title else b == 0) for title, (a, b) in seen.items())
raise SystemExit(not right)
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
