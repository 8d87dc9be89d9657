"""Proposals around one centre: the scale of all parameters from a number, and a parent for any number of members."""

import numpy as np
import pytest
import torch

from neuro_cli.algo.base import Proposal


def test_a_number_is_the_scale_of_every_parameter():
    centre = torch.arange(3.0)
    proposal = Proposal.around(centre, 0.1)
    assert proposal.bases.data_ptr() == centre.data_ptr()
    assert proposal.bases.shape == (1, 3)
    assert proposal.scale.dtype == torch.float32
    assert torch.equal(proposal.scale, torch.tensor([0.1]))
    assert proposal.frozen == frozenset()


def test_a_tensor_is_taken_as_it_is():
    scale = torch.rand(3)
    assert Proposal.around(torch.zeros(3), scale).scale is scale


@pytest.mark.parametrize("member", [0, 5, 2**31])
def test_every_member_descends_from_the_first_base_where_none_is_named(member):
    assert Proposal.around(torch.zeros(3), 0.1).parent_of(member) == 0


def test_named_parents_are_followed():
    proposal = Proposal(torch.zeros(2, 3), np.array([0, 1, 1]), torch.ones(1))
    assert [proposal.parent_of(member) for member in range(3)] == [0, 1, 1]
