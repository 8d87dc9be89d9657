"""The same module on every rank of a script."""

import json
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import writing
from neuro_cli.core.module.copies import state_of
from neuro_cli.fabric.base import World
from neuro_cli.runner.consensus import collectively

PIECE = 2**26  # bytes of a message


def share_initial(module: nn.Module, world: World) -> None:
    """Give every rank the parameters and buffers of rank 0's module: each rank's own random ones would differ.

    Raises ConfigError on every rank where modules have other tensors.
    """
    if world.size == 1:
        return
    state = dict(chain(module.named_parameters(), module.named_buffers()))  # a state_dict lacks buffers that are not persistent
    mine = json.dumps({name: [str(value.dtype), *value.shape] for name, value in state.items()}).encode()
    with collectively(world):
        if world.broadcast(mine) != mine:
            allowed = "must have the same tensors on every rank: rank 0's differ"
            raise ConfigError("module", type(module).__name__, allowed)
    with writing(state_of(module)):
        for value in state.values():
            _share_first(world, value)


def _share_first(world: World, tensor: Tensor) -> None:
    """Write rank 0's numbers to ``tensor``, piece by piece: no message, and no copy, has all of a large module."""
    plain = tensor.detach().cpu().contiguous()
    numbers = plain.reshape(-1).view(torch.uint8) if plain.numel() else torch.empty(0, dtype=torch.uint8)
    for part in numbers.split(PIECE):
        # a copy: memory that an array has seen cannot become the centre's
        mine = part.clone().numpy().tobytes() if world.rank == 0 else b""
        if len(part):
            part.copy_(torch.from_numpy(np.frombuffer(bytearray(world.broadcast(mine)), np.uint8)))
    if plain.data_ptr() != tensor.data_ptr():
        tensor.copy_(plain)
