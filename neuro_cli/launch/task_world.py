"""Start of a worker's task process as an MPI job: python -m neuro_cli.launch.task_world RANKS SETTINGS.

The process becomes the launcher, so that the worker's signals reach it. Tasks go to rank 0, on its standard input.
"""

import os
import sys

from neuro_cli.core.errors import UserError
from neuro_cli.launch.launcher import world_launcher

CHILD = "neuro_cli.broker.worker.child"


def main() -> None:
    """Become ``mpiexec -n RANKS``, or srun in a SLURM job, of the program that does tasks."""
    ranks, settings = int(sys.argv[1]), sys.argv[2]
    try:
        starts = world_launcher()
        command = starts.command(ranks, [sys.executable, "-P", "-m", CHILD, settings])
        if starts.kind == "srun":
            command.insert(1, "--input=0")  # else all ranks get what rank 0 reads
        environment = starts.environment(ranks)
    except UserError as error:
        sys.exit(f"worker.ranks={ranks}: {error}")
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main()
