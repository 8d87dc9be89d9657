"""Jobs of the threads that score members: the members that one perturbation of one parent gives."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from neuro_cli.algo.base import Proposal
from neuro_cli.sampler.base import Sampler


@dataclass(frozen=True)
class MemberJob:
    """Members on the two sides of one direction around one parent, None for no member; or one ``frozen``, unperturbed member."""

    parent: int
    direction: int
    plus: int | None
    minus: int | None
    frozen: bool

    def write(self, sampler: Sampler, proposal: Proposal, generation: int, plus: Tensor | None, minus: Tensor | None) -> None:
        """Write the members' parameters into ``plus`` (M,) and ``minus``, None for no member. One draw serves both sides."""
        base = proposal.bases[self.parent]
        if not self.frozen:
            sampler.place(base.float(), proposal.scale, proposal.transform, generation, self.direction, plus, minus)
            return
        for side in (plus, minus):
            if side is not None:
                side.copy_(base)


def jobs_of(sampler: Sampler, members: range, proposal: Proposal) -> list[MemberJob]:
    """Group ``members``: a job for each direction, in order, unless its sides have different parents or one is frozen."""
    groups: dict[tuple[int, int, int | None], dict[int, int]] = {}
    for member in members:
        direction, sign = sampler.side(member)
        frozen = member if member in proposal.frozen else None
        groups.setdefault((direction, proposal.parent_of(member), frozen), {})[sign] = member
    return [
        MemberJob(parent, direction, sides.get(1), sides.get(-1), frozen is not None)
        for (direction, parent, frozen), sides in groups.items()
    ]


def write_members(sampler: Sampler, proposal: Proposal, generation: int, members: range, out: Tensor) -> None:
    """Write the parameters of ``members`` into ``out`` (n, M), with the bits that each member's job gives."""
    who = np.arange(members.start, members.stop)
    frozen = [member - members.start for member in proposal.frozen if member in members]
    directions, signs = sampler.signed_directions(who)
    parents = None if proposal.parent is None else proposal.parent[who]
    sampler.prepare(generation, range(int(directions[0]), int(directions[-1]) + 1))
    sampler.write_members(proposal.bases.float(), parents, proposal.scale, proposal.transform, generation, directions, signs, out)
    for row in frozen:
        out[row] = proposal.bases[0 if parents is None else int(parents[row])]
