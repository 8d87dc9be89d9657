"""Promises of every world of ranks; real MPI ranks count their bytes."""

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.inside import well
from support.shared_world import program_in_world
from support.worlds import program

from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import SingleProcess, Traffic
from neuro_cli.fabric.shares import shares
from neuro_cli.runner.consensus import collectively


@given(total=st.integers(0, 10_000), parts=st.integers(1, 50))
def test_shares_cover_everything_once_and_evenly(total, parts):
    pieces = shares(total, parts)
    assert pieces[0][0] == 0
    assert pieces[-1][1] == total
    assert all(a[1] == b[0] for a, b in pairwise(pieces))
    sizes = [b - a for a, b in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_alone_moves_nothing():
    world = SingleProcess()
    values = np.arange(3.0)
    assert world.all_gather(values, [3]) is values
    assert world.gather(values, [3]) is values
    begun = world.start_all_gather(values, [3])
    assert begun.test()
    assert begun.wait() is values
    assert world.all_to_all([values])[0] is values
    world.all_reduce(values)
    assert world.broadcast(b"x") == b"x"
    assert (world.traffic.sent, world.traffic.received) == (0, 0)
    with pytest.raises(UserError, match="as it was"), collectively(world):
        raise UserError("as it was")


COLLECTIVES = Path(__file__).parent / "collectives_program.py"


@pytest.mark.xdist_group("ranks")
def test_collectives_of_real_ranks(mpi, tmp_path):
    program_in_world(COLLECTIVES, cwd=tmp_path, ranks=3, mpi=mpi)


@pytest.mark.slow
def test_collectives_of_ranks_that_do_not_share_cores(mpi, tmp_path):
    done = well(program(COLLECTIVES, cwd=tmp_path, ranks=2, mpi=mpi, NEURO_SHARE_CORES="0"))
    assert done.stdout.count("all well") == 2


@pytest.mark.parametrize(("counted", "refused"), [(99, True), (100, False)])
def test_messages_that_did_not_cross_the_emulated_network_are_refused(monkeypatch, counted, refused):
    world = SingleProcess()
    world.traffic.sent, world.emulated = 100, True
    monkeypatch.setattr(world, "interface_traffic", lambda: Traffic(counted, 0))
    with pytest.raises(RuntimeError, match="does not send over the emulated network") if refused else nullcontext():
        world.refuse_shortcut()
