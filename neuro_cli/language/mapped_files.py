"""Parameters mapped from safetensors files: copies of a network and other processes share their pages."""

import json
import os
from pathlib import Path

import torch
from torch import nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.pages import Pages, Part
from neuro_cli.core.module.copies import PAGES
from neuro_cli.language.gguf_file import PLAIN

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"


def map_parameters(module: nn.Module, folder: Path) -> None:
    """Replace parameters of ``module`` by views of the ``weight_files`` of ``folder`` that have the same numbers."""
    for file in weight_files(folder):
        parts = parts_of_file(file)
        named = [(name, one) for name, one in module.named_parameters() if _fits(one, parts.get(name))]
        named.sort(key=lambda pair: parts[pair[0]].start)
        if not named:
            continue
        pages = Pages([parts[name] for name, _ in named], os.open(file, os.O_RDONLY | os.O_CLOEXEC))
        for place, ((_, parameter), view) in enumerate(zip(named, pages.views(), strict=True)):
            # transformers may rename, transpose or join tensors as it loads them, and an order of rows may keep the ends
            if torch.equal(parameter.detach(), view):
                parameter.data = view
                setattr(parameter, PAGES, (pages, place))


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of ``folder`` that transformers reads: one, or the shards of the index.

    Files of other precisions or programs may have tensors of the same names. Raises UserError for a damaged index.
    """
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    named = shards(folder) if (folder / INDEX).is_file() else None
    return [file for file in sorted(folder.glob("*.safetensors")) if named is None or file.name in named]


def shards(folder: Path) -> set[str]:
    """Return the names of the files in the index of ``folder``. Raises UserError for an index that cannot be read."""
    try:
        return set(json.loads((folder / INDEX).read_text())["weight_map"].values())
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{folder / INDEX}: it cannot be read as an index of shards") from error


def parts_of_file(file: Path) -> dict[str, Part]:
    """Return type, shape and first byte of each tensor of floats in a safetensors file, by name."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    return {
        name: Part(PLAIN[entry["dtype"]], tuple(entry["shape"]), 8 + length + entry["data_offsets"][0])
        for name, entry in header.items()
        if name != "__metadata__" and entry["dtype"] in PLAIN
    }


def _fits(parameter: nn.Parameter, part: Part | None) -> bool:
    same = part is not None and (part.dtype, part.shape) == (parameter.dtype, tuple(parameter.shape))
    return same and part is not None and part.start % part.dtype.itemsize == 0
