"""Launchers that start processes without MPI: each process would be a separate run of the same command."""

import os
from dataclasses import dataclass

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.mpi import launched

TORCHRUN = "TORCHELASTIC_RUN_ID"  # variable of every process of torchrun and of torch.distributed.run
MPI_OF_SRUN = "give srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI), or "


@dataclass(frozen=True)
class ForeignStart:
    """Start of this process as ``rank`` of ``ranks`` by a ``launcher`` without MPI."""

    launcher: str
    rank: int
    ranks: int

    def refusal(self) -> UserError:
        """Return the error with the command that starts ranks."""
        return UserError(
            f"{self.launcher} started this process as rank {self.rank} of {self.ranks} without MPI, so each would train alone; "
            f"{MPI_OF_SRUN if self.launcher == 'srun' else ''}use neuro train ranks={self.ranks}, "
            f"or mpiexec -n {self.ranks} neuro train"
        )


def foreign_start() -> ForeignStart | None:
    """Return the place among others that torchrun, or srun without MPI, gave this process; None without such a launcher."""
    if launched():
        return None
    if TORCHRUN in os.environ and (ranks := _number("WORLD_SIZE")) > 1:
        return ForeignStart("torchrun", _number("RANK"), ranks)
    if "SLURM_PROCID" in os.environ and (ranks := _number("SLURM_STEP_NUM_TASKS")) > 1:
        return ForeignStart("srun", _number("SLURM_PROCID"), ranks)
    return None


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else 0
