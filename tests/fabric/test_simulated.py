"""A pretending world against what the collectives promise."""

import numpy as np
import pytest
from support.configs import composed

from neuro_cli.fabric.shares import shares
from neuro_cli.fabric.simulated import SimulatedWorld
from neuro_cli.runner.loop import assemble
from neuro_cli.runner.options import Options


@pytest.mark.parametrize("size", [1, 2, 7, 96])
def test_gathered_blocks_have_their_places_and_are_counted(size):
    world = SimulatedWorld(size)
    pieces = shares(1000, size)
    counts = [b - a for a, b in pieces]
    start, stop = pieces[world.rank]
    own = np.arange(start, stop, dtype=np.float32)
    for own_values in (own, own + 1):  # a second call meets the buffer of the first
        gathered = world.all_gather(own_values, counts)
        assert len(gathered) == 1000
        assert (gathered[start:stop] == own_values).all()
    assert world.traffic.sent == (2 * own.nbytes if size > 1 else 0)
    assert world.traffic.received == (2 * (4000 - own.nbytes) if size > 1 else 0)
    assert [noted.call for noted in world.noted] == ([("all_gather", 4000)] * 2 if size > 1 else [])


def test_the_rank_with_most_to_do_is_pretended():
    for total in range(1, 60):
        for size in range(1, total + 1):
            low, high = shares(total, size)[SimulatedWorld(size).rank]
            assert high - low == max(b - a for a, b in shares(total, size))


def test_a_reduction_is_noted():
    world = SimulatedWorld(4)
    world.all_reduce(np.zeros(10, np.float32))
    assert [noted.call for noted in world.noted] == [("all_reduce", 40)]


def test_published_semi_updates_find_no_bad_member_in_ranks_that_are_not_there():
    """Their zeros said that member 0 has a fitness that is not finite, so that nothing could be projected."""
    config = composed("population=8", "batch_size=4", "distribution=semi_updates", "distribution.ranks_shaping=local")
    world = SimulatedWorld(4)
    work = assemble(Options(config), world)
    begun = len(world.noted)
    work.step(0)
    work.close()
    assert [noted.call[0] for noted in world.noted[begun:]] == ["all_gather", "all_reduce"]
