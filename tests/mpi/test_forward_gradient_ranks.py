"""A loop with neuro.ForwardGradient under an MPI launcher: 2 and 3 ranks give the bits of one process."""

from pathlib import Path

import pytest
import torch
from forward_gradient_program import trained
from support.shared_world import program_in_world
from support.worlds import Mpi

pytestmark = pytest.mark.xdist_group("ranks")
PROGRAM = Path(__file__).parent / "forward_gradient_program.py"


def test_ranks_of_a_launcher_give_the_bits_of_one_process(tmp_path, mpi: Mpi):
    trained(tmp_path / "1.pt")
    program_in_world(PROGRAM, str(tmp_path), cwd=tmp_path, ranks=3, mpi=mpi)
    one, two, three = (torch.load(tmp_path / f"{ranks}.pt", weights_only=True) for ranks in (1, 2, 3))
    for other in (two, three):
        assert all(torch.equal(other[name], value) for name, value in one.items())
