"""``model.safetensors``: the trained network's tensors by name, as ``load_state_dict`` takes them, and facts about it.

The checkpoint has the same numbers, flat and with the optimizer's state. It is for resuming; this file is for using the network.
The header has one JSON object with the facts of :func:`facts_of` under ``neuro``, and ``format: pt`` for other libraries.
"""

import io
import json
import logging
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from neuro_cli.core.errors import UserError
from neuro_cli.core.files import replace_atomically
from neuro_cli.core.metric import Metric
from neuro_cli.run_folder.checkpoint import plain_tensors, serialised
from neuro_cli.run_folder.summary import git_revision, versions
from neuro_cli.task.inputs import Inputs, as_plain

log = logging.getLogger(__name__)

MODEL = "model.safetensors"
FORMAT = 1
LENGTH = 8  # bytes of the header's length, little-endian


def facts_of(
    config: Mapping[str, Any],
    generation: int,
    inputs: Inputs | None,
    headline: Metric | None,
    values: Mapping[str, float],
    packages: Iterable[str] = (),
) -> dict[str, Any]:
    """Return facts of a network trained for ``generation`` generations: what made it, what it takes, how good it is.

    ``values``: metrics of an evaluation; the facts have the ``headline``. ``packages``: those of the task.
    """
    metric = None
    if headline is not None and headline.name in values:
        value = float(values[headline.name])
        metric = {"name": headline.name, "better": headline.better, "value": value if math.isfinite(value) else None}
    return {
        "format": FORMAT,
        "model": config.get("model"),
        "task": _target(config.get("task")),
        "algo": _target(config.get("algo")),
        "generation": generation,
        "inputs": None if inputs is None else as_plain(inputs),
        "metric": metric,
        "versions": versions(packages=packages),
        "git_revision": git_revision(),
    }


def _target(node: Any) -> Any:
    return node.get("_target_") if isinstance(node, dict) else None


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the dense tensors in the state of ``module``; a user's class may keep other things there, which are left out."""
    state = module.state_dict()
    others = left_out(module)
    if others:
        log.warning("%s: not a dense tensor, so model.safetensors leaves it out", ", ".join(others))
    return {name: value for name, value in state.items() if name not in others}


def left_out(module: nn.Module) -> dict[str, Any]:
    """Return what no file of the module has: sparse tensors, and what is no tensor. Its constructor makes them again."""
    return {name: value for name, value in module.state_dict().items() if not is_dense(value)}


def is_dense(value: Any) -> bool:
    """Return whether a value is a tensor that safetensors takes."""
    return isinstance(value, Tensor) and value.layout is torch.strided


def model_bytes(module: nn.Module, facts: Mapping[str, Any]) -> bytes:
    """Return the content of a safetensors file with the tensors of ``module`` and ``facts`` in its header."""
    content = io.BytesIO(serialised(tensors_of(module), _metadata(facts)))
    _order(content)
    return content.getvalue()


def _metadata(facts: Mapping[str, Any]) -> dict[str, str]:
    return {"format": "pt", "neuro": json.dumps(facts)}


def _order(file: BinaryIO) -> None:
    """Sort the metadata in the header of a safetensors file: the library's order is random, and equal models give equal files."""
    size = int.from_bytes(file.read(LENGTH), "little")
    header = json.loads(file.read(size))
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)
    assert len(text) == size
    file.seek(LENGTH)
    file.write(text)


def write_model(path: Path, module: nn.Module, facts: Mapping[str, Any]) -> None:
    """Write the file, without a copy of its tensors in memory. Raises UserError."""

    def write(new: Path) -> None:
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        mode = new.stat().st_mode
        inner = new.with_name(f"{new.name}.folder")  # save_file begins with a file of a random name, which a kill would leave
        shutil.rmtree(inner, ignore_errors=True)
        inner.mkdir()
        try:
            save_file(plain_tensors(tensors_of(module)), inner / new.name, _metadata(facts))
            with (inner / new.name).open("r+b") as file:
                _order(file)
            os.replace(inner / new.name, new)
        finally:
            shutil.rmtree(inner)
        new.chmod(mode)  # save_file puts a file in place that its owner alone may read

    try:
        replace_atomically(path, write)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
