"""Grouping of members into jobs: by direction and parent, frozen members alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from neuro_cli.algo.base import Proposal
from neuro_cli.core import noise
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.sampler.iid import Iid
from neuro_cli.scoring.jobs import jobs_of, write_members

POPULATION = 8


@pytest.fixture(params=[False, True], ids=["plain", "pairs"])
def sampler(request) -> Iid:
    layout = ParameterLayout(torch.nn.Linear(4, 3))
    made = Iid(antithetic=request.param)
    made.bind(Noise(5, layout.size, torch.device("cpu"), Threads(1)), POPULATION, layout)
    return made


def around(sampler: Iid) -> Proposal:
    return Proposal.around(torch.linspace(-1, 1, sampler.layout.size), 0.5)


@pytest.mark.parametrize("members", [range(POPULATION), range(3, 7), range(5, 6)])
def test_jobs_cover_every_member_once_on_its_side(sampler, members):
    seen = []
    for job in jobs_of(sampler, members, around(sampler)):
        for member, sign in ((job.plus, 1), (job.minus, -1)):
            if member is not None:
                assert sampler.side(member) == (job.direction, sign)
                seen.append(member)
    assert sorted(seen) == list(members)


def test_a_pair_is_one_job_unless_its_parents_differ_or_one_is_frozen(sampler):
    proposal = replace(around(sampler), parent=np.array([0, 0, 0, 1, 1, 1, 1, 1]), bases=torch.eye(2, 15), frozen=frozenset({4}))
    jobs = {(job.parent, job.plus, job.minus, job.frozen) for job in jobs_of(sampler, range(POPULATION), proposal)}
    if sampler.antithetic:
        assert jobs == {
            (0, 0, 1, False), (0, 2, None, False), (1, None, 3, False), (1, 4, None, True), (1, None, 5, False), (1, 6, 7, False),
        }  # fmt: skip
    else:
        assert jobs == {(int(proposal.parent[i]), i, None, i == 4) for i in range(POPULATION)}


def test_members_are_written_as_the_proposal_says(sampler):
    proposal = replace(around(sampler), frozen=frozenset({4}))
    rows = torch.empty(POPULATION, sampler.layout.size)
    for job in jobs_of(sampler, range(POPULATION), proposal):
        job.write(sampler, proposal, 2, *(None if side is None else rows[side] for side in (job.plus, job.minus)))
    for member, row in enumerate(rows):
        direction, sign = sampler.side(member)
        step = 0.0 if member == 4 else sign * 0.5 * sampler.explicit(2, direction)
        torch.testing.assert_close(row, proposal.bases[0] + step)


@pytest.mark.parametrize("transform", [None, lambda rows: rows.flip(1)], ids=["plain", "transformed"])
@pytest.mark.parametrize("few", [0, 10**9], ids=["compiled", "by numpy"])
def test_all_members_at_once_have_the_bits_of_their_jobs(sampler, transform, few, monkeypatch):
    monkeypatch.setattr(noise, "tier", noise.Tier(few=few))
    parents = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    proposal = replace(around(sampler), parent=parents, bases=torch.randn(2, 15), frozen=frozenset({4}), transform=transform)
    rows, at_once = torch.empty(2, POPULATION, sampler.layout.size)
    for job in jobs_of(sampler, range(POPULATION), proposal):
        job.write(sampler, proposal, 2, *(None if side is None else rows[side] for side in (job.plus, job.minus)))
    for low, high in ((0, 3), (3, POPULATION)):  # shares of two ranks, which split a pair
        write_members(sampler, proposal, 2, range(low, high), at_once[low:high])
    assert torch.equal(at_once, rows)
