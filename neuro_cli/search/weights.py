"""Trained weights of candidates: bounded text in a worker's result, safetensors in the run folder.

The paper's workers lose them, because a message is bounded, or save them to a distributed file system. Here they travel with the
result where they fit into it, so no worker needs a place to write to.
"""

import base64
import binascii
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from neuro_cli.broker.worker.kinds import RESULT_VARIABLE
from neuro_cli.core.errors import UserError
from neuro_cli.core.files import save_file
from neuro_cli.run_folder.checkpoint import serialised
from neuro_cli.run_folder.model_file import is_dense

FOLDER = "weights"
ROOM = 16384  # most bytes of the other fields of a result


def packed(model: nn.Module) -> dict[str, str]:
    """Return fields of a result: ``weights``, or ``weights_error`` where they are too large for the worker's messages."""
    text = base64.b64encode(serialised(_dense(model.state_dict()))).decode()
    limit = int(os.environ.get(RESULT_VARIABLE, 0)) - ROOM
    if RESULT_VARIABLE in os.environ and len(text) > limit:
        return {"weights_error": f"they take {len(text)} bytes, {limit} fit into a result (security.message_bytes)"}
    return {"weights": text}


def unpacked(text: object, model: nn.Module) -> bytes:
    """Return the bytes of a safetensors file from the field ``weights``, checked against ``model``'s architecture.

    Raises UserError for anything else, since the field came over a network.
    """
    try:
        data = base64.b64decode(text if isinstance(text, str) else "", validate=True)
        tensors = load(data)
    except (binascii.Error, ValueError, SafetensorError) as error:
        raise UserError(f"they are no safetensors ({' '.join(str(error).split())[:120]})") from error
    if _described(tensors) != _described(_dense(model.state_dict())):
        raise UserError("they are of another architecture")
    return data


def _dense(state: dict[str, Any]) -> dict[str, Tensor]:
    """Return what a file of the network has."""
    return {name: value for name, value in state.items() if is_dense(value)}


def _described(state: dict[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (value.shape, value.dtype) for name, value in state.items()}


class WeightsFolder:
    """Files ``weights/candidate_N.safetensors`` of a run."""

    def __init__(self, run: Path) -> None:
        self._folder = run / FOLDER

    def path(self, number: int) -> Path:
        return self._folder / f"candidate_{number}.safetensors"

    def write(self, number: int, data: bytes) -> None:
        """Write the weights of a candidate. Raises UserError."""
        self._folder.mkdir(exist_ok=True)
        save_file(self.path(number), data)

    def keep(self, numbers: Iterable[int]) -> None:
        """Remove the weights of all other candidates."""
        kept = {self.path(number) for number in numbers}
        for path in self._folder.glob("candidate_*.safetensors"):
            if path not in kept:
                path.unlink()
