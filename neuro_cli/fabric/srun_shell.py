"""The shell of ``srun --pty``: a command in it is no rank, though it inherits the variables of the step's first task."""

import os

PREFIX = "PMI"  # beginning of the variables by which srun's tasks of MPI meet: PMI_, PMI2_, PMIX_
# variables of mpiexec, whose ranks may keep the terminal of the shell
_OF_MPIEXEC = ("MPI_LOCALNRANKS", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")


def in_shell() -> bool:
    """Return whether the process has the terminal of ``srun --pty``, which tasks of a step inside that shell lack."""
    if "SLURM_PTY_PORT" not in os.environ or any(name in os.environ for name in _OF_MPIEXEC):
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def forget_step() -> None:
    """Remove what would make a command in such a shell a rank: sites whose srun has MPI by default set it for the shell too.

    The other tasks of the step have ended, so that MPI_Init would wait for them without end.
    """
    if any(name.startswith(PREFIX) for name in os.environ) and in_shell():
        for name in [name for name in os.environ if name.startswith(PREFIX)]:
            del os.environ[name]
