#!/usr/bin/env bash
# Of one GGUF vocabulary transformers and llama.cpp make other tokens: the first one of a Llama 3 is missing, and numbers are cut elsewhere
#
# Version: transformers 5.24.0, gguf 0.19.0, llama.cpp by xllamacpp 2026.10.11549 (declarations of llama-cpp-py-sync 0.11548)
# Belief: The tokenizer that is read from a GGUF file gives the tokens with which the file is served.
# Seen: transformers reads `tokenizer.ggml.pre` for Llama 3's and Mistral's kind alone. With "smollm", "starcoder" or "default" it cuts no
#   numbers, so that with merges of digits 1234567 is 12 34 567, where llama.cpp has single digits, or 123 456 7. Where the file has no
#   `add_bos_token` and its kind is "llama-bpe" or "tekken", llama.cpp puts the first token before a text and transformers does not; with
#   the key both agree.
# Means: Rewards for sums are those of prompts that the served network never sees. Compare the ids of some prompts with numbers, and
#   write `add_bos_token` into the file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate torch==2.14.1 numpy==2.4.6 cffi
"$folder/venv/bin/pip" install --quiet --no-deps xllamacpp==2026.10.11549 llama-cpp-py-sync==0.11548
cd "$folder"
cat >program.py <<'EOF'
import itertools

import gguf
import numpy as np
import transformers
import xllamacpp.xllamacpp as extension
from llama_cpp_py_sync._cffi_bindings import get_ffi

transformers.utils.logging.set_verbosity_error()
ffi = get_ffi()
llama = ffi.dlopen(extension.__file__)  # the extension exports llama.cpp's functions


@ffi.callback("void(enum ggml_log_level, const char *, void *)")
def quiet(level, text, data):
    pass


def write(architecture, kind, first):
    """A vocabulary of bytes, numbers of two and three digits, and two marks; the network has no use."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    words = [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]
    digits = "0123456789"
    merges = [f"{a} {b}" for a, b in itertools.product(digits, digits)]
    merges += [f"{a}{b} {c}" for a, b, c in itertools.product(digits, digits, digits)]
    words += [merge.replace(" ", "") for merge in merges] + ["<s>", "</s>"]
    writer = gguf.GGUFWriter("model.gguf", architecture)
    for add, value in (("context_length", 64), ("embedding_length", 8), ("block_count", 1), ("feed_forward_length", 8)):
        getattr(writer, f"add_{add}")(value)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_layer_norm_eps(1e-6)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(kind)
    writer.add_token_list(words)
    writer.add_token_types([1] * (len(words) - 2) + [3, 3])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(words) - 2)
    writer.add_eos_token_id(len(words) - 1)
    if first is not None:
        writer.add_add_bos_token(first)
    writer.add_tensor("token_embd.weight", np.zeros((len(words), 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return words


def served(text):
    llama.llama_log_set(quiet, ffi.NULL)
    options = llama.llama_model_default_params()
    options.vocab_only = True
    vocabulary = llama.llama_model_get_vocab(llama.llama_model_load_from_file(b"model.gguf", options))
    ids = ffi.new("llama_token[]", 64)
    return [ids[place] for place in range(llama.llama_tokenize(vocabulary, text.encode(), len(text.encode()), ids, 64, True, True))]


CASES = [("llama", "llama-bpe", None), ("llama", "llama-bpe", True), ("llama", "tekken", None), ("qwen2", "qwen2", None)]
CASES += [("llama", "smollm", None), ("starcoder2", "starcoder", None), ("llama", "default", None)]
seen = []
for architecture, kind, first in CASES:
    words = write(architecture, kind, first)
    mine = transformers.AutoTokenizer.from_pretrained(".", gguf_file="model.gguf")("1234567").input_ids
    both = [" ".join(words[token] for token in ids) for ids in (mine, served("1234567"))]
    seen.append(both)
    print(f"{architecture}, {kind}, add_bos_token {first}: transformers {both[0]!r}, llama.cpp {both[1]!r}", flush=True)
wanted = [["123 456 7", "<s> 123 456 7"], ["<s> 123 456 7"] * 2, ["1 2 3 4 5 6 7", "<s> 1 2 3 4 5 6 7"], ["1 2 3 4 5 6 7"] * 2]
wanted += [["12 34 567", "1 2 3 4 5 6 7"]] * 2 + [["12 34 567", "123 456 7"]]
raise SystemExit(seen != wanted)
EOF
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -W ignore program.py
