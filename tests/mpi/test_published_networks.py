"""The published networks on real images, two ranks, every distribution."""

from pathlib import Path

import pytest
from support.worlds import program


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_published_networks_run_generations_with_every_distribution(mpi, real_data, tmp_path):
    done = program(Path(__file__).parent / "networks_program.py", str(real_data), cwd=tmp_path, ranks=2, timeout=1100, mpi=mpi)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    assert done.stdout.count("ran ") == 12
