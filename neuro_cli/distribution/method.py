"""Base of all options of the group ``distribution``, for populations and for ensembles."""

from abc import ABC


class Method(ABC):  # noqa: B024 (what generations and ensembles share is their group)
    """Method of distribution; ``needs_mpi``: False where one process does everything and no MPI library is needed."""

    name = ""
    needs_mpi = True
