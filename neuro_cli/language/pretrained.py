"""Pretrained networks and tokenizers of transformers, from a folder or a GGUF file on this machine.

Nothing is downloaded, and no code of the folder runs: its architecture is one of transformers' own, its weights are safetensors
or GGUF. A tokenizer's chat template runs in transformers' sandbox.
"""

import copy
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.messages.install import absent, install
from neuro_cli.language.gguf_file import begins_texts, left_out
from neuro_cli.language.kept_folder import kept_folder
from neuro_cli.language.mapped_files import INDEX, ONE_FILE, map_parameters, shards
from neuro_cli.language.quantised import in_blocks

KEY = "model.path"
PACKAGES = ("transformers", "gguf", "accelerate")
LOCAL = {"local_files_only": True, "trust_remote_code": False}


def load_model(
    path: str | Path, *, dtype: torch.dtype = torch.float32, classes: int | None = None, quantised: bool = False
) -> nn.Module:
    """Return the causal language model or sequence classifier at ``path``, in evaluation mode and in ``dtype``.

    ``classes``: number of classes of a new head with random weights; None: the head in the file. ``quantised``: the matrices of
    a GGUF file stay in its blocks, mapped, and are dequantised in each product.

    ``path``: a folder with ``config.json`` and safetensors, or a GGUF file, which is converted once into the user's cache.
    Weights that are on disk in ``dtype`` are mapped, not read: processes of a machine share their memory. On the meta device
    no weight is read. Raises UserError.
    """
    place, config = _place(path), load_config(path, classes)
    if quantised:
        if place.is_dir() or classes is not None:
            raise ConfigError("model.quantised", "true", "needs a file *.gguf as model.path, and model.classes=null")
        kind, config._attn_implementation = _kind(config), _attention(_kind(config))
        return in_blocks(lambda: kind(config), place, config, dtype).eval()
    if torch.get_default_device().type == "meta":
        shapes: nn.Module = _kind(config)(config).to(dtype)
        return shapes.eval()
    if place.is_dir():
        return _from(path, place, config, dtype, ignore_mismatched_sizes=classes is not None)  # a head of other sizes

    def convert(folder: Path) -> None:  # the file's own head goes along, whatever this call wants
        _from_gguf(path, load_config(path), dtype).save_pretrained(folder)

    folder = kept_folder(place, f"{_versions()} own head", str(dtype).removeprefix("torch."), convert)
    if folder is None:
        return _from_gguf(path, config, dtype)
    return _from(path, folder, config, dtype, ignore_mismatched_sizes=classes is not None)


def load_tokenizer(path: str | Path) -> Any:
    """Return transformers' tokenizer of the folder or GGUF file at ``path``, one for a process. Raises UserError."""
    return _tokenizer(str(_place(path).resolve()))


def load_config(path: str | Path, classes: int | None = None) -> Any:
    """Return a copy of transformers' config at ``path``, with a classifier's head for so many ``classes`` if given.

    Raises UserError for an architecture that transformers does not have.
    """
    config = copy.deepcopy(_config(str(_place(path).resolve())))
    if classes is not None:
        config.num_labels, config.architectures = classes, [_tables()[1].get(config.model_type)]
    class_of(config)
    if config.model_type == "rwkv":
        config.rescale_every = 0  # rescaling divides weights in place, and an export would hold the quotients
    return config


def is_classifier(config: Any) -> bool:
    """Return whether the network returns logits of classes, not of tokens."""
    return class_of(config) == _tables()[1].get(config.model_type)


def class_of(config: Any) -> str:
    """Return the name of the network's class in transformers. Raises ConfigError for one that is not in its tables."""
    causal, classifier = (table.get(config.model_type) for table in _tables())
    named = (config.architectures or [causal])[0]
    if named is None or named not in (causal, classifier):
        allowed = "must be a causal language model or sequence classifier of transformers' own"
        raise ConfigError(KEY, config.name_or_path, f"its architecture, {named or config.model_type}, {allowed}")
    return str(named)


def _tables() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the classes of causal language models and of sequence classifiers, by type of model."""
    from transformers.models.auto import modeling_auto as auto

    return auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES


def _place(path: str | Path) -> Path:
    """Return the folder, or the GGUF file. Raises UserError where it is neither, or transformers is missing."""
    missing = absent(*PACKAGES)
    if missing:
        raise UserError(f"model=huggingface: {', '.join(missing)} is not installed: {install('llm')}")
    place = Path(path).expanduser()
    if place.is_file() and place.suffix == ".gguf":
        return place
    if not (place / "config.json").is_file():
        raise ConfigError(KEY, path, "must be a folder with config.json and *.safetensors, or a file *.gguf")
    if not any(place.glob("*.safetensors")):
        raise ConfigError(KEY, path, "has no *.safetensors; other weights are pickled, and loading them would run their code")
    _refuse_two(path, place)
    _refuse_code(path, place)
    return place


def _refuse_two(path: str | Path, place: Path) -> None:
    """Raise ConfigError where one file and the shards of an index may be two networks: the older one would be read."""
    if not ((place / ONE_FILE).is_file() and (place / INDEX).is_file()):
        return
    if any((place / name).is_file() for name in shards(place) - {ONE_FILE}):
        raise ConfigError(
            KEY, path, f"has {ONE_FILE} and the shards of {INDEX}, which may be another network; remove one of them"
        )


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


def _from(path: str | Path, folder: Path, config: Any, dtype: torch.dtype, **options: Any) -> nn.Module:
    """Return the network of a folder of safetensors."""
    model = _pretrained(path, folder, config, dtype=dtype, use_safetensors=True, **options)
    map_parameters(model, folder)
    return model


def _from_gguf(path: str | Path, config: Any, dtype: torch.dtype) -> Any:
    """Return the network of a GGUF file in plain floats, without the marks by which transformers refuses to save it."""
    place = _place(path)
    model = _pretrained(path, place.parent, config, dtype=dtype, gguf_file=place.name)
    if getattr(model, "hf_quantizer", None) is not None:
        del model.hf_quantizer, model.config.quantization_config
        model.is_quantized, model.quantization_method = False, None
    return model


def _pretrained(path: str | Path, folder: Path, config: Any, **options: Any) -> Any:
    kind = _kind(config)
    options |= {"config": config, "attn_implementation": _attention(kind)}
    return _read(path, "network", kind, str(folder), **options).eval()


def _kind(config: Any) -> Any:
    return getattr(_transformers(), class_of(config))


def _attention(kind: Any) -> str:
    """Return transformers' name of the attention: a config may name an implementation that would be downloaded."""
    return "sdpa" if getattr(kind, "_supports_sdpa", False) else "eager"


@lru_cache
def _config(path: str) -> Any:
    return _of_folder(path, "config", "AutoConfig")


@lru_cache
def _tokenizer(path: str) -> Any:
    return _of_folder(path, "tokenizer", "AutoTokenizer")


def _of_folder(path: str, what: str, kind: str) -> Any:
    """Return the object that ``AutoConfig`` or ``AutoTokenizer`` reads from the folder or GGUF file at ``path``."""
    place, reader = Path(path), getattr(_transformers(), kind)

    def of_file() -> Any:
        read = _read(path, what, reader, str(place.parent), gguf_file=place.name)
        missing = left_out(place, read, _parameters(read)) if what == "config" else None
        if missing is not None:
            reason = f"transformers leaves its {missing} out, so it would be another network; give the folder with config.json"
            raise ConfigError(KEY, path, reason)
        if what == "tokenizer" and begins_texts(place):
            read.add_bos_token = True
        return read

    if place.is_dir():
        return _read(path, what, reader, path)
    # cached, as reading it from the file takes seconds
    folder = kept_folder(
        place, f"{_versions()} compared with names and first tokens", what, lambda folder: of_file().save_pretrained(folder)
    )
    return of_file() if folder is None else _read(path, what, reader, str(folder))


def _parameters(config: Any) -> list[str]:
    with torch.device("meta"):
        return [name for name, _ in _kind(config)(config).named_parameters()]


def _read(path: str | Path, what: str, kind: Any, folder: str, **options: Any) -> Any:
    """Return the object of class ``kind`` from ``folder``. Raises ConfigError."""
    try:
        with torch.device("cpu"):  # transformers refuses the meta device
            return kind.from_pretrained(folder, **LOCAL, **options)
    except Exception as error:  # transformers raises many kinds
        raise ConfigError(KEY, path, f"transformers cannot read its {what}: {_first_line(error)}") from error


def _transformers() -> Any:
    """Return the package, with its progress bars and advice turned off."""
    import transformers

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    return transformers


def _versions() -> str:
    """Return the versions of the packages that convert a GGUF file."""
    from importlib.metadata import version

    return f"transformers {version('transformers')} gguf {version('gguf')}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
