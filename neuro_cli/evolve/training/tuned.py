"""Tuned model on disk: a copy of the base with the evolved tensors replaced, or safetensors of a network of neuro."""

from pathlib import Path

from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.core.files import file_sha256
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.run_folder.checkpoint import serialised, write_atomically
from neuro_cli.run_folder.model_file import tensors_of

SAFETENSORS, GGUF = ".safetensors", ".gguf"
ONE_KEY = {"format": "pt"}  # one key: safetensors writes several in a random order, and equal models must give equal files


def kind_of(base: Path | None) -> str:
    """Return the suffix of a model tuned from ``base``, "" for a folder; ``base`` None: a network without a base."""
    return SAFETENSORS if base is None else GGUF if base.suffix == GGUF else ""


def check_place(key: str, place: Path, base: Path | None) -> None:
    """Raise ConfigError unless a model tuned from ``base`` can be written to ``place``."""
    endings = (SAFETENSORS,) if base is None else ("", GGUF) if base.suffix == GGUF else ("",)
    if place.suffix not in endings and (base is None or place.suffix in (SAFETENSORS, GGUF)):
        allowed = " or ".join(f"a file *{ending}" if ending else "a folder" for ending in endings)
        raise ConfigError(key, place, f"must be {allowed}, as {'this model is written' if base is None else base}")
    if place.is_dir() or (base is not None and place.exists()):
        raise ConfigError(key, place, "exists: name another place")


def evolved(layout: ParameterLayout, centre: Tensor) -> dict[str, Tensor]:
    """Return the evolved tensors by name, from their flat vector (M,)."""
    return dict(zip((place.name for place in layout.places), layout.views(centre.cpu().float()), strict=True))


def write(place: Path, base: Path | None, module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Write the model with ``tensors`` in place of the base's; ``module``: a network without a base. Raises UserError."""
    try:
        if base is None:
            module.load_state_dict(tensors, strict=False)
            write_atomically(place, serialised(tensors_of(module), ONE_KEY))
            return
        from neuro_cli.language.tuned import write_tuned  # imported here: it needs an extra

        write_tuned(base, place, tensors)
    except OSError as error:
        raise UserError(f"{place}: cannot be written: {error.strerror}") from error


def said(place: Path, iteration: int, digest: str, head: bytes) -> str:
    """Return the line about a written model: iteration, and SHA-256 of the parameters, the history and the file."""
    more = "" if place.is_dir() else f", file {file_sha256(place)[:16]}"
    return f"{place}: iteration {iteration}, parameters {digest[:16]}, ledger {head.hex()[:16]}{more}"
