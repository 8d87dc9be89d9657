"""Whatever network the launcher gives: shared memory inside a node, the cluster's interconnect between nodes."""

from neuro_cli.fabric.base import Alone, World
from neuro_cli.fabric.mpi import launched, mpi_world


class Native:
    def connect(self, needs_mpi: bool) -> World:
        """The world of this process. MPI starts only where a launcher did so or ``needs_mpi``."""
        return mpi_world() if needs_mpi or launched() else Alone()
