"""Sums of what is placed, by compiled loops, against additions one by one."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.core.layout import Place
from neuro_cli.sampler.blocks import Block
from neuro_cli.sampler.placement import PlacementPlan, count_places


def places(generator: np.random.Generator, directions: int, kept: int, count: int) -> np.ndarray:
    return np.stack([generator.permutation(count)[:kept] for _ in range(directions)]).astype(np.int32)


@given(directions=st.sampled_from([1, 40, 3000]), count=st.sampled_from([1, 7, 130, 400]), share=st.sampled_from([0.3, 1.0]))
@settings(max_examples=20, deadline=None)
def test_counts_are_additions_one_by_one(directions, count, share):
    generator = np.random.default_rng(directions + count)
    index = places(generator, directions, max(1, round(share * count)), count)
    weights = generator.standard_normal(directions).astype(np.float32)
    into = torch.ones(index.shape[1], count)
    expected = np.ones(into.shape, np.float32)
    for d in range(directions):
        expected[np.arange(index.shape[1]), index[d]] += weights[d]
    count_places(torch.from_numpy(index), torch.from_numpy(weights), into)
    assert np.array_equal(into.numpy(), expected)  # in the order of the directions


def test_inputs_of_a_group_are_counted_beyond_16_bits():
    """Groups are few, and so their order is of 16 bits; a group's inputs may be more than those count."""
    block = Block(Place("weight", (2, 40_000), 0, 80_000), rows=2, inner=40_000, spatial=1, vector=False, first=0)
    words = torch.tensor([[2**31, 0], [0, 2**31]]).to(torch.uint32)
    rows, _, channels = PlacementPlan(groups=2, all_groups=2, outputs=0, inputs=0).draw(block, words)
    assert rows.dtype == torch.int16
    groups = torch.tensor([[1, 0], [0, 1]])
    assert torch.equal(rows.long(), groups)
    assert torch.equal(channels.long(), (groups[:, :, None] * 40_000 + torch.arange(40_000)).flatten(1))
