"""A private SLURM for all tests of the folder."""

from collections.abc import Iterator

import pytest
from support.private_slurm import started

CPUS = 8  # more than there are: the jobs of several tests wait and sleep side by side


@pytest.fixture(scope="session")
def slurm(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment in which sbatch, srun and sacct speak to a SLURM of our own."""
    yield from started(tmp_path_factory.mktemp("slurm"), CPUS, 1)
