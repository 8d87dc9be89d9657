"""What all options of the group ``distribution`` share, whatever they distribute."""

from abc import ABC


class Method(ABC):  # noqa: B024 (what generations and ensembles share is their group)
    """``needs_mpi``: False where one process does everything and no MPI library need be there."""

    name = ""
    needs_mpi = True
