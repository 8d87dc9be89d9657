"""A loop with neuro.ForwardGradient under an MPI launcher: 2 and 3 ranks give the bits of one process."""

from pathlib import Path

import pytest
import torch
from support.worlds import Mpi, program

pytestmark = pytest.mark.xdist_group("ranks")
PROGRAM = Path(__file__).parent / "forward_gradient_program.py"


def test_ranks_of_a_launcher_give_the_bits_of_one_process(tmp_path, mpi: Mpi):
    states = []
    for ranks in (0, 2, 3):
        path = tmp_path / f"{ranks}.pt"
        done = program(PROGRAM, str(path), cwd=tmp_path, ranks=ranks, mpi=mpi)
        assert done.returncode == 0, done.stderr
        states.append(torch.load(path, weights_only=True))
    for other in states[1:]:
        assert all(torch.equal(other[name], value) for name, value in states[0].items())
