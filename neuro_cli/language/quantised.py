"""Networks of GGUF files whose matrices stay in the file's blocks, mapped from it: no copy of them in floats is made."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.machine.pages import Pages, Part
from neuro_cli.core.module.copies import in_pages
from neuro_cli.language.blocks import BLOCK, BYTES, BlockEmbedding, BlockLinear
from neuro_cli.language.gguf_file import PLAIN, GgufFile, Stored

KEY = "model.quantised"
# architectures whose files have the numbers of transformers, and whether llama.cpp has rows of queries and keys in its own order
ROTATED = {"llama": True, "qwen2": False, "qwen3": False}


def in_blocks(build: Callable[[], Any], path: Path, config: Any, dtype: torch.dtype) -> nn.Module:
    """Return the frozen network that ``build`` makes, with the tensors of the GGUF file at ``path``; floats are of ``dtype``.

    On the meta device they have shapes alone. Raises ConfigError for another architecture, other blocks, and what the file lacks.
    """
    from accelerate import init_empty_weights

    file, shapes_alone = GgufFile(path, config.num_hidden_layers), torch.get_default_device().type == "meta"
    if file.architecture not in ROTATED:
        raise ConfigError(KEY, "true", f"the file's architecture, {file.architecture}, must be one of {', '.join(ROTATED)}")
    with init_empty_weights(include_buffers=False):
        network = build()
    blocks = {}
    for name, layer in list(network.named_modules()):
        stored = file.get(f"{name}.weight")
        if stored is not None and stored.kind not in PLAIN:
            new = _layer(name, layer, stored, config if ROTATED[file.architecture] else None, dtype)
            network.set_submodule(name, new)
            blocks[f"{name}.blocks"] = Part(torch.uint8, tuple(new.blocks.shape), stored.start)
    if file.get("lm_head.weight") is None:
        _tie(network)
    floats = {name: _part(name, file) for name, one in network.named_parameters() if one.dtype != torch.uint8 and one.numel()}
    values = {name: torch.empty(part.shape) for name, part in floats.items()} if shapes_alone else _read(path, floats)
    for name, value in values.items():
        place, _, last = name.rpartition(".")
        setattr(network.get_submodule(place), last, nn.Parameter(value.to(dtype, copy=True), requires_grad=False))
    if not shapes_alone:
        names = _by_place(blocks)
        in_pages([network.get_parameter(name) for name in names], _pages(path, blocks))
    return network


def _layer(name: str, layer: nn.Module, stored: Stored, rotated: Any, dtype: torch.dtype) -> BlockLinear | BlockEmbedding:
    """Return a layer in place of ``layer``; ``rotated``: the network's config, if queries and keys are in llama.cpp's order."""
    if stored.kind not in BYTES:
        raise ConfigError(KEY, "true", f"the file has {name} in {stored.kind}, must be one of {', '.join(BYTES)}")
    size = stored.shape[0], stored.shape[1] // BLOCK * BYTES[stored.kind]
    blocks = nn.Parameter(torch.empty(size, dtype=torch.uint8), requires_grad=False)
    if type(layer) is nn.Embedding:
        return BlockEmbedding(blocks, stored.kind, dtype)
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.rpartition(".")[2])
    bias: Any = layer.bias
    return BlockLinear(blocks, stored.kind, bias, getattr(rotated, heads) if rotated is not None and heads else None)


def _tie(network: Any) -> None:
    """Let the head have the embedding's numbers."""
    embedding = network.get_input_embeddings()
    if isinstance(embedding, BlockEmbedding):
        network.set_output_embeddings(BlockLinear(embedding.blocks, embedding.kind))
    else:
        network.get_output_embeddings().weight = embedding.weight


def _part(name: str, file: GgufFile) -> Part:
    stored = file.get(name)
    if stored is None:
        raise ConfigError(KEY, "true", f"the file has no {name}")
    return stored.part


def _read(path: Path, parts: Mapping[str, Part]) -> dict[str, Tensor]:
    return dict(zip(_by_place(parts), _pages(path, parts).views(), strict=True))


def _by_place(parts: Mapping[str, Part]) -> list[str]:
    return sorted(parts, key=lambda name: parts[name].start)


def _pages(path: Path, parts: Mapping[str, Part]) -> Pages:
    return Pages([parts[name] for name in _by_place(parts)], os.open(path, os.O_RDONLY | os.O_CLOEXEC))
