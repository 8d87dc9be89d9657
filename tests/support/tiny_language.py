"""Folders of tiny random networks of transformers, with a tokenizer of characters."""

import string
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from neuro_cli.core.lazy import LazyModule

if find_spec("transformers") is None:
    pytest.skip("could not import 'transformers'", allow_module_level=True)
transformers: Any = LazyModule("transformers")  # every worker collects the tests, and one of them runs these
CHARACTERS = " \n" + string.digits + string.ascii_letters + string.punctuation
VOCABULARY = len(CHARACTERS) + 3  # and the tokens for padding and for the end, and one of two letters in GGUF files
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": VOCABULARY}


def tiny_config(kind: str, **more: Any) -> Any:
    """Config of llama | qwen2 | gpt2 | bert, which ``more`` changes."""
    few = (
        {} if kind == "bert" else {"num_key_value_heads": 2, "tie_word_embeddings": True, "eos_token_id": 1, "bos_token_id": None}
    )
    name = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "gpt2": "GPT2Config", "bert": "BertConfig"}[kind]
    sizes = {**SIZES, "max_position_embeddings": 128, "pad_token_id": 0, **few, **more}
    return getattr(transformers, name)(**sizes)


def tiny_model(folder: Path, kind: str = "llama", **more: Any) -> Path:
    """Write a random network and its tokenizer to ``folder``, and return that; bert has a classifier's head."""
    heads = {"bert": "BertForSequenceClassification", "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
    head = {**heads, "gpt2": "GPT2LMHeadModel"}[kind]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = getattr(transformers, head)(tiny_config(kind, **more))
    with torch.no_grad():  # norms that matter, and logits that differ
        for parameter in model.parameters():
            parameter.mul_(4.0) if parameter.dim() > 1 else parameter.add_(torch.linspace(-0.2, 0.2, len(parameter)))
    return saved(model, folder)


def tiny_family(folder: Path, config: str, head: str = "CausalLM", **more: Any) -> Path:
    """Write a random network of transformers' class ``config``, with a ``head``, to ``folder`` with a tokenizer; return that."""
    sizes = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 128, "head_dim": 8}
    if config == "XLNetConfig":
        del sizes["max_position_embeddings"]  # it has no such limit
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    with torch.random.fork_rng():
        torch.manual_seed(3)
        made = getattr(transformers, config)(**{**sizes, **special, **more})
        model = getattr(transformers, f"AutoModelFor{head}").from_config(made)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4.0) if parameter.dim() > 1 else None
    return saved(model, folder)


def saved(model: Any, folder: Path) -> Path:
    """Write ``model`` and a tokenizer to ``folder``, and return that."""
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def tiny_tokenizer() -> Any:
    """Tokenizer of characters: token 0 pads, token 1 ends."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {"<pad>": 0, "<end>": 1, **{letter: number for number, letter in enumerate(CHARACTERS, 2)}}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<end>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", chat_template=template
    )


def tiny_gguf(file: Path, folder: Path, kind: str = "Q8_0", own_head: bool = False, more=lambda writer: None) -> Path:
    """Write the llama or qwen2 of ``folder`` as a GGUF file, matrices in ``kind`` and all else in float32, and return that.

    ``more`` writes further settings and tensors.
    """
    import gguf
    from gguf.quants import quantize

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    config, blocks = model.config, gguf.GGMLQuantizationType[kind]
    architecture = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}[config.model_type]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    writer = gguf.GGUFWriter(file, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    more(writer)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(
        ["<pad>", "<end>", *(letter.replace(" ", "\u0120").replace("\n", "\u010a") for letter in CHARACTERS), "12"]
    )
    writer.add_token_merges(["1 2"])
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)
    parameters = dict(model.named_parameters())
    if own_head:
        parameters["lm_head.weight"] = parameters["model.embed_tokens.weight"] * -2
    for name, parameter in parameters.items():
        values = parameter.detach().numpy()
        if config.model_type == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):  # as llama.cpp has their rows
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        mine = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if parameter.dim() == 1:
            writer.add_tensor(mine, values)
        else:
            writer.add_tensor(mine, quantize(values, blocks), raw_dtype=blocks)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
