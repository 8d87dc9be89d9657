"""Launcher that started this process, and the world of its ranks: MPI's, or that of torch.distributed."""

from neuro_cli.fabric.base import World
from neuro_cli.fabric.mpi import launched as mpi_launched
from neuro_cli.fabric.mpi import mpi_world
from neuro_cli.fabric.torchrun_environment import torch_launched


def launched() -> bool:
    """Return whether a launcher started this process as a rank, by its environment."""
    return torch_launched() or mpi_launched()


def launched_world() -> World:
    """Return the world of the launcher's ranks. Raises UserError where they cannot meet."""
    if torch_launched():
        from neuro_cli.fabric.torch_world import torch_world

        return torch_world()
    return mpi_world()
