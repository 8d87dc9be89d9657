"""The same module on every rank of a script."""

from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor, nn

from neuro_cli.core.copies import state_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import writing
from neuro_cli.fabric.base import World
from neuro_cli.runner.consensus import collectively


def share_initial(module: nn.Module, world: World) -> None:
    """Give every rank the parameters and buffers of rank 0's module: each rank's own random ones would differ.

    Raises ConfigError on every rank where modules have other tensors.
    """
    if world.size == 1:
        return
    state = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    mine = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    first = tensors_of(world.broadcast(bytes_of(mine) if world.rank == 0 else b""))
    with collectively(world):
        if {name: value.shape for name, value in first.items()} != {name: value.shape for name, value in mine.items()}:
            allowed = "must have the same tensors on every rank: rank 0's differ"
            raise ConfigError("module", type(module).__name__, allowed)
    with writing(state_of(module)):
        for name, value in state.items():
            value.copy_(first[name])
