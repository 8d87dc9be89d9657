"""Single-process method: one process does everything, without MPI."""

from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.replicated import Replicated


class Local(Replicated):
    """Method of one process, without MPI; also for a gradient algorithm. Raises ConfigError on several ranks."""

    name = "local"
    needs_mpi = False

    def __init__(self) -> None:
        super().__init__()

    def check(self) -> None:
        if self.job.world.size > 1:
            allowed = "needs 1 rank; with more choose auto, chromosome_updates, semi_updates, replicated or data_parallel"
            raise ConfigError("distribution", f"local (on {self.job.world.size} ranks)", allowed)
