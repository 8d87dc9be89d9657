"""Tuned copies of a pretrained model's files: trained tensors are replaced, all other bytes stay."""

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import name_complete, remove, temporary_name
from neuro_cli.core.machine.pages import Part
from neuro_cli.language.gguf_file import PLAIN, GgufFile, Stored
from neuro_cli.language.mapped_files import parts_of_file, weight_files
from neuro_cli.language.pretrained import load_config, load_model, load_tokenizer


def write_tuned(path_in: str | Path, path_out: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the model at ``path_in`` with other ``tensors``, by the names of transformers, to ``path_out``.

    A folder gives a folder, and a GGUF file a GGUF file; all other bytes are those of ``path_in``, and tensors are rounded to the
    type of the file. A GGUF file gives a folder of float32 if ``path_out`` does not end in ``.gguf``. Raises UserError for a
    tensor that the file lacks or has in blocks of few bits, and if ``path_out`` exists.
    """
    source, target = Path(path_in).expanduser(), Path(path_out).expanduser()
    if target.exists():
        raise UserError(f"{path_out}: it exists; choose another name")
    named = {name.removeprefix("pretrained."): tensor.detach().cpu() for name, tensor in tensors.items()}
    new = temporary_name(target)  # only a complete file gets the name
    try:
        if source.is_dir():
            _folder(source, new, named)
        elif target.suffix == ".gguf":
            _gguf(source, new, named)
        else:
            _as_folder(source, new, named)
        name_complete(new, target)
    finally:
        remove(new)


def _folder(source: Path, new: Path, named: dict[str, Tensor]) -> None:
    """Write a folder like ``source``."""
    shutil.copytree(source, new)
    files = {file: parts_of_file(file) for file in weight_files(new)}
    stored = {name for parts in files.values() for name in parts}
    left = dict(named) if named.keys() <= stored else _as_stored(source, named)
    for file, parts in files.items():
        _patch(file, {name: (parts[name], left.pop(name)) for name in sorted(left.keys() & parts.keys())})
    _refuse_left(source, left)


def _as_stored(source: Path, named: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return all tensors of the folder ``source``, with those ``named`` in their places, as its files have them.

    Some families have other names there, and a tensor for each expert. Untrained tensors are rounded back to what they were.
    """
    from transformers.core_model_loading import revert_weight_conversion

    model: Any = load_model(source)
    state = {name: named.get(name, parameter.detach().float()) for name, parameter in model.named_parameters()}
    _refuse_left(source, {name: tensor for name, tensor in named.items() if name not in state})
    made: dict[str, Tensor] = revert_weight_conversion(model, state)
    return made


def _gguf(source: Path, new: Path, named: dict[str, Tensor]) -> None:
    """Write a GGUF file like ``source``."""
    file, left, patches = GgufFile(source, load_config(source).num_hidden_layers), dict(named), {}
    for name in sorted(named):
        stored = file.get(name)
        if stored is not None:
            patches[name] = (_part(name, stored), _stored(file.architecture, name, left.pop(name)))
    _refuse_left(source, left)
    shutil.copyfile(source, new)
    _patch(new, patches)


def _part(name: str, stored: Stored) -> Part:
    """Return the place of a tensor in a GGUF file. Raises ConfigError."""
    if stored.kind not in PLAIN:
        allowed = f"the file has it in blocks ({stored.kind}); write a folder of safetensors, or train norms alone"
        raise ConfigError("file", name, allowed)
    return stored.part


def _stored(architecture: str, name: str, tensor: Tensor) -> Tensor:
    """Return a tensor as GGUF files store it. Raises ConfigError if they store its rows in another order."""
    if tensor.dim() > 1 and name.endswith(("q_proj.weight", "k_proj.weight")):
        raise ConfigError("file", name, "GGUF files have its rows in another order; write a folder of safetensors")
    # a norm of Gemma multiplies by 1 + its parameter; the files store the sum
    return tensor + 1 if architecture.startswith("gemma") and name.endswith("norm.weight") else tensor


def _as_folder(source: Path, new: Path, named: dict[str, Tensor]) -> None:
    """Write a folder of safetensors from a GGUF file."""
    model: Any = load_model(source)
    state, left = dict(model.named_parameters()), dict(named)
    with torch.no_grad():
        for name in sorted(left.keys() & state.keys()):
            state[name].copy_(left.pop(name))
    _refuse_left(source, left)
    try:
        model.save_pretrained(new)
        load_tokenizer(source).save_pretrained(new)
    except Exception as error:
        if isinstance(error, SafetensorError) or type(error) is Exception:  # errors of files by safetensors and tokenizers
            raise OSError(errno.EIO, str(error)) from error
        raise


def _patch(file: Path, patches: Mapping[str, tuple[Part, Tensor]]) -> None:
    """Replace tensors in a file. Raises ConfigError for one of another shape."""
    with file.open("r+b") as stream:
        for name, (part, tensor) in patches.items():
            if tuple(tensor.shape) != part.shape:
                raise ConfigError("file", name, f"has the shape {tuple(tensor.shape)}, the file's {part.shape}")
            stream.seek(part.start)
            stream.write(tensor.to(part.dtype).flatten().view(torch.uint8).numpy().tobytes())


def _refuse_left(source: Path, left: Mapping[str, Tensor]) -> None:
    if left:
        raise ConfigError("file", next(iter(left)), f"is no tensor of {source}")
