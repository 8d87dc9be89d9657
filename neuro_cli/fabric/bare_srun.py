"""srun without MPI and without a place to meet: each process would be a separate run of the same command."""

import os
from dataclasses import dataclass

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.srun_shell import in_shell
from neuro_cli.fabric.start import launched


@dataclass(frozen=True)
class ForeignStart:
    """Start of this process as ``rank`` of ``ranks`` that know nothing of each other."""

    rank: int
    ranks: int

    def refusal(self) -> UserError:
        """Return the error of ranks that srun started, with the commands that start a world."""
        return UserError(
            f"srun started this process as rank {self.rank} of {self.ranks} without MPI, so each would train alone; "
            "give srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI), export MASTER_ADDR and MASTER_PORT for torch.distributed, "
            f"or use neuro train ranks={self.ranks}"
        )


def foreign_start() -> ForeignStart | None:
    """Return the rank and size of a step of srun that lacks the means to connect its tasks; None without such a start.

    A command in the shell of ``srun --pty bash`` runs alone, whatever tasks the step has.
    """
    if not launched() and not in_shell() and "SLURM_PROCID" in os.environ and (ranks := _number("SLURM_STEP_NUM_TASKS")) > 1:
        return ForeignStart(_number("SLURM_PROCID"), ranks)
    return None


def _number(name: str) -> int:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else 0
