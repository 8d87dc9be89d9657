"""Pretrained networks and tokenizers of transformers, from a folder or a GGUF file on this machine.

Nothing is downloaded, and no code of the folder runs: its architecture is one of transformers' own, its weights are safetensors
or GGUF. A tokenizer's chat template runs in transformers' sandbox.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.install import absent, install

KEY = "model.path"
PACKAGES = ("transformers", "gguf", "accelerate")


def load_model(path: str | Path, *, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return the causal language model or sequence classifier at ``path``, in evaluation mode and in ``dtype``.

    ``path``: a folder with ``config.json`` and safetensors, or a GGUF file. Raises UserError.
    """
    transformers = _transformers()
    where, options = _source(path)
    options |= {"config": load_config(path), "dtype": dtype, "attn_implementation": "sdpa", "use_safetensors": True}
    kind = getattr(transformers, class_of(options["config"]))
    try:
        model: nn.Module = kind.from_pretrained(where, **options)
    except Exception as error:  # transformers raises many kinds
        raise ConfigError(KEY, path, f"transformers cannot load it: {_first_line(error)}") from error
    return _unmarked(model.eval())


def load_tokenizer(path: str | Path) -> Any:
    """Return transformers' tokenizer of the folder or GGUF file at ``path``, one for a process. Raises UserError."""
    return _tokenizer(str(Path(path).expanduser().resolve()))


@lru_cache
def load_config(path: str | Path) -> Any:
    """Return transformers' config at ``path``. Raises UserError for an architecture that is not one of its own."""
    transformers = _transformers()
    where, options = _source(path)
    try:
        config = transformers.AutoConfig.from_pretrained(where, **options)
    except Exception as error:
        raise ConfigError(KEY, path, f"transformers cannot read its config: {_first_line(error)}") from error
    class_of(config)
    return config


def class_of(config: Any) -> str:
    """Return the name of the network's class in transformers. Raises ConfigError for one that is not in its tables."""
    causal, classifiers = (table.get(config.model_type) for table in _tables())
    named = (config.architectures or [causal])[0]
    if named is None or named not in (causal, classifiers):
        allowed = "a causal language model or sequence classifier of transformers' own"
        raise ConfigError(KEY, f"{config.name_or_path or config.model_type} ({named})", f"its architecture must be {allowed}")
    return str(named)


def is_classifier(config: Any) -> bool:
    """Return whether the network gives logits of classes, not of tokens."""
    return class_of(config) == _tables()[1].get(config.model_type)


def _tables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the classes of causal language models and of sequence classifiers, by type of model."""
    from transformers.models.auto import modeling_auto as auto

    return auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES


def _source(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the folder at ``path`` and options for ``from_pretrained``. Raises ConfigError where there is no model."""
    place, options = Path(path).expanduser(), {"local_files_only": True, "trust_remote_code": False}
    if place.is_file():
        if place.suffix != ".gguf":
            raise ConfigError(KEY, path, "must be a folder, or a file *.gguf")
        return str(place.parent), {**options, "gguf_file": place.name}
    if not (place / "config.json").is_file():
        raise ConfigError(KEY, path, "must be a folder with config.json and *.safetensors, or a file *.gguf")
    if not any(place.glob("*.safetensors")):
        raise ConfigError(KEY, path, "has no *.safetensors; other weights are pickled, and loading them would run their code")
    _refuse_code(path, place)
    return str(place), options


def _refuse_code(path: str | Path, place: Path) -> None:
    """Raise ConfigError where ``config.json`` names code in the folder, or quantised weights."""
    try:
        config = json.loads((place / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(KEY, path, f"config.json cannot be read: {_first_line(error)}") from error
    if "auto_map" in config:
        raise ConfigError(KEY, path, "its config.json names code of its own (auto_map), which neuro does not run")
    if "quantization_config" in config:
        raise ConfigError(KEY, path, "its weights are quantised; of such only a GGUF file can be loaded")


@lru_cache
def _tokenizer(path: str) -> Any:
    transformers = _transformers()
    where, options = _source(path)
    try:
        return transformers.AutoTokenizer.from_pretrained(where, **options)
    except Exception as error:
        raise ConfigError(KEY, path, f"transformers cannot load its tokenizer: {_first_line(error)}") from error


def _transformers() -> Any:
    """Return the package, without its bars and advice. Raises UserError where it is not installed."""
    missing = absent(*PACKAGES)
    if missing:
        raise UserError(f"model=huggingface: {', '.join(missing)} is not installed: {install('llm')}")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def _unmarked(model: Any) -> nn.Module:
    """Return a network from a GGUF file without the marks that refuse to save it: its numbers are plain floats."""
    if getattr(model, "hf_quantizer", None) is not None:
        del model.hf_quantizer, model.config.quantization_config
        model.is_quantized, model.quantization_method = False, None
    result: nn.Module = model
    return result


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
