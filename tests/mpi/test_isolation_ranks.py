"""Networks that keep state, draw random numbers or write to their input have the same centre on any number of ranks."""

import json
from pathlib import Path

import pytest
from support.shared_world import program_in_world
from support.worlds import needs_mpi, own_mpi

pytestmark = [needs_mpi, pytest.mark.xdist_group("ranks")]
PROGRAM = Path(__file__).with_name("isolation_program.py")


def test_centres_do_not_depend_on_the_ranks(tmp_path):
    program_in_world(PROGRAM, str(tmp_path / "digests.json"), cwd=tmp_path, ranks=3, mpi=own_mpi())
    one, two, three = json.loads((tmp_path / "digests.json").read_text())
    assert len(set(one)) == len(one) == 5
    assert two == one
    assert three == one
