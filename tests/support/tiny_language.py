"""Folders of tiny random networks of transformers, with a tokenizer of characters."""

import string
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
CHARACTERS = " \n" + string.digits + string.ascii_letters + string.punctuation
VOCABULARY = len(CHARACTERS) + 2  # and the tokens for padding and for the end
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": VOCABULARY}


def tiny_config(kind: str, **more: Any) -> Any:
    """Config of llama | qwen2 | bert, which ``more`` changes."""
    few = (
        {} if kind == "bert" else {"num_key_value_heads": 2, "tie_word_embeddings": True, "eos_token_id": 1, "bos_token_id": None}
    )
    name = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "bert": "BertConfig"}[kind]
    sizes = {**SIZES, "max_position_embeddings": 128, "pad_token_id": 0, **few, **more}
    return getattr(transformers, name)(**sizes)


def tiny_model(folder: Path, kind: str = "llama", **more: Any) -> Path:
    """Write a random network and its tokenizer to ``folder``, and return that; bert has a classifier's head."""
    head = {"bert": "BertForSequenceClassification", "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[kind]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = getattr(transformers, head)(tiny_config(kind, **more))
    with torch.no_grad():  # norms that matter, and logits that differ
        for parameter in model.parameters():
            parameter.mul_(4.0) if parameter.dim() > 1 else parameter.add_(torch.linspace(-0.2, 0.2, len(parameter)))
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
