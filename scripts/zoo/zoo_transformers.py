"""Architectures of transformers by tiny configurations, unmodified: outputs with caches, inputs by keyword."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import transformers
from subjects import Call, Subject, images, tokens
from torch import Tensor, nn

WORDS, LONG, WIDE = 48, 7, 32
TEXT = {"vocab_size": WORDS, "hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
BERT = {**TEXT, "max_position_embeddings": 32, "pad_token_id": 0}
LLAMA = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
HEADED = {**LLAMA, "head_dim": 8}
VISION = {
    "image_size": 16, "patch_size": 8, "hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48,
}  # fmt: skip
SEQUENCES = {
    "vocab_size": WORDS, "d_model": WIDE, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 32,
}  # fmt: skip
SPEECH = {
    "hidden_size": WIDE, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48, "conv_dim": (16, 16),
    "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2, "vocab_size": 12,
}  # fmt: skip


def named(name: str) -> Call:
    """Call with the examples as the keyword ``name``."""
    return lambda module, x: module(**{name: x})


def both(module: nn.Module, x: Tensor) -> Any:
    """Call with words to read and the first of them as words to write."""
    return module(input_ids=x, decoder_input_ids=x[:, :4])


def heard_words(module: nn.Module, x: Tensor) -> Any:
    """Call with sounds, and two words to write that are the same for all."""
    return module(input_features=x, decoder_input_ids=torch.full((len(x), 2), 5))


WORD, PIXEL, SOUND = named("input_ids"), named("pixel_values"), named("input_values")
FLOAT32 = ("MixtralForCausalLM",)  # its experts are a product of groups, which torch has in no float64
Row = tuple[str, str, dict[str, Any], Callable[[int], Tensor], Call]


def text(model: str, config: str, values: dict[str, Any]) -> Row:
    return model, config, values, tokens(LONG, WORDS), WORD


def vision(model: str, config: str, values: dict[str, Any], *shape: int) -> Row:
    return model, config, values, images(*(shape or (3, 16, 16))), PIXEL


# class of the network, of its configuration, what differs from that, examples, how it is called
ARCHITECTURES: list[Row] = [
    text("GPT2LMHeadModel", "GPT2Config", {"vocab_size": WORDS, "n_embd": WIDE, "n_layer": 2, "n_head": 4, "n_positions": 32}),
    text(
        "GPT2ForSequenceClassification",
        "GPT2Config",
        {"vocab_size": WORDS, "n_embd": WIDE, "n_layer": 2, "n_head": 4, "n_positions": 32, "num_labels": 3, "pad_token_id": 0},
    ),
    text("GPTNeoXForCausalLM", "GPTNeoXConfig", BERT),
    text(
        "GPTJForCausalLM",
        "GPTJConfig",
        {"vocab_size": WORDS, "n_embd": WIDE, "n_layer": 2, "n_head": 4, "n_positions": 32, "rotary_dim": 4},
    ),
    text(
        "OPTForCausalLM",
        "OPTConfig",
        {**TEXT, "ffn_dim": 48, "max_position_embeddings": 32, "word_embed_proj_dim": WIDE, "pad_token_id": 0},
    ),
    text("BloomForCausalLM", "BloomConfig", {"vocab_size": WORDS, "hidden_size": WIDE, "n_layer": 2, "n_head": 4}),
    text(
        "FalconForCausalLM",
        "FalconConfig",
        {"vocab_size": WORDS, "hidden_size": WIDE, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
    text("LlamaForCausalLM", "LlamaConfig", LLAMA),
    text("MistralForCausalLM", "MistralConfig", LLAMA),
    text("MixtralForCausalLM", "MixtralConfig", {**LLAMA, "num_local_experts": 2, "num_experts_per_tok": 1}),
    text("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    text("Qwen3ForCausalLM", "Qwen3Config", HEADED),
    text("GemmaForCausalLM", "GemmaConfig", HEADED),
    text("Gemma2ForCausalLM", "Gemma2Config", HEADED),
    text("PhiForCausalLM", "PhiConfig", LLAMA),
    text("MambaForCausalLM", "MambaConfig", {"vocab_size": WORDS, "hidden_size": WIDE, "num_hidden_layers": 2, "state_size": 4}),
    text("BertForSequenceClassification", "BertConfig", BERT),
    text("BertForMaskedLM", "BertConfig", BERT),
    text("RobertaForSequenceClassification", "RobertaConfig", {**BERT, "pad_token_id": 1}),
    text(
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        {"vocab_size": WORDS, "dim": WIDE, "n_layers": 2, "n_heads": 4, "hidden_dim": 48},
    ),
    text("AlbertForSequenceClassification", "AlbertConfig", {**BERT, "embedding_size": 16}),
    text("ElectraForSequenceClassification", "ElectraConfig", {**BERT, "embedding_size": 16}),
    text(
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        {**BERT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    text("MPNetForSequenceClassification", "MPNetConfig", {**BERT, "pad_token_id": 1}),
    text("FNetForSequenceClassification", "FNetConfig", BERT),
    text(
        "XLNetForSequenceClassification",
        "XLNetConfig",
        {"vocab_size": WORDS, "d_model": WIDE, "n_layer": 2, "n_head": 4, "d_inner": 48},
    ),
    text(
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": WORDS, "d_model": WIDE, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    ),
    (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": WORDS, "d_model": WIDE, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4},
        tokens(LONG, WORDS),
        both,
    ),
    ("BartForConditionalGeneration", "BartConfig", SEQUENCES, tokens(LONG, WORDS), both),
    vision("ViTForImageClassification", "ViTConfig", VISION),
    vision("DeiTForImageClassification", "DeiTConfig", VISION),
    vision("BeitForImageClassification", "BeitConfig", {**VISION, "use_relative_position_bias": True}),
    vision("Dinov2ForImageClassification", "Dinov2Config", VISION),
    vision(
        "SwinForImageClassification",
        "SwinConfig",
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 1], "num_heads": [2, 4], "window_size": 4},
        3,
        32,
        32,
    ),
    vision(
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [16, 24], "depths": [1, 1], "num_stages": 2},
        3,
        32,
        32,
    ),
    vision(
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]},
        3,
        32,
        32,
    ),
    vision(
        "MobileViTForImageClassification",
        "MobileViTConfig",
        {"image_size": 32, "hidden_sizes": [24, 32, 48], "neck_hidden_sizes": [8, 16, 24, 32, 40, 48, 64]},
        3,
        32,
        32,
    ),
    vision(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "num_attention_heads": [1, 2],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
        },
        3,
        32,
        32,
    ),
    vision("CLIPVisionModel", "CLIPVisionConfig", VISION),
    text("CLIPTextModel", "CLIPTextConfig", {**BERT, "eos_token_id": 2}),
    vision("VideoMAEForVideoClassification", "VideoMAEConfig", {**VISION, "num_frames": 2}, 2, 3, 16, 16),
    ("Wav2Vec2ForCTC", "Wav2Vec2Config", SPEECH, images(400), SOUND),
    ("HubertForCTC", "HubertConfig", SPEECH, images(400), SOUND),
    (
        "ASTForAudioClassification",
        "ASTConfig",
        {**VISION, "max_length": 32, "num_mel_bins": 16, "patch_size": 8, "frequency_stride": 8, "time_stride": 8},
        images(32, 16),
        SOUND,
    ),
    (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            **{key: value for key, value in SEQUENCES.items() if key != "max_position_embeddings"},
            "num_mel_bins": 8,
            "max_source_positions": 16,
            "max_target_positions": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        images(8, 32),
        heard_words,
    ),
    (
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        {
            "num_input_channels": 2,
            "context_length": 16,
            "patch_length": 4,
            "patch_stride": 4,
            "d_model": WIDE,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
            "ffn_dim": 48,
            "prediction_length": 4,
        },
        images(16, 2),
        named("past_values"),
    ),
]


def made(model: str, config: str, values: dict[str, Any]) -> nn.Module:
    """A network with random weights."""
    network: nn.Module = getattr(transformers, model)(getattr(transformers, config)(**values))
    return network


def subjects() -> list[Subject]:
    transformers.logging.set_verbosity_error()
    return [
        Subject(
            "transformers",
            model,
            1,
            config,
            "tiny",
            partial(made, model, config, values),
            examples,
            call,
            torch.float32 if model in FLOAT32 else torch.float64,
        )
        for model, config, values, examples, call in ARCHITECTURES
    ]
