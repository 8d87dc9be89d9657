"""Jobs of the threads that score members: the members that one perturbation of one parent gives."""

from dataclasses import dataclass

from neuro_cli.algo.base import Proposal
from neuro_cli.sampler.base import Unit


@dataclass(frozen=True)
class MemberJob:
    """Members made by one perturbation of one parent, or one unperturbed member."""

    parent: int
    unit: Unit
    frozen: int | None = None


def jobs_of(units: list[Unit], proposal: Proposal) -> list[MemberJob]:
    """One job a unit, unless its halves have different parents or one of them is frozen."""
    jobs = []
    for unit in units:
        sides = [("plus", unit.plus), ("minus", unit.minus)]
        for side, member in list(sides):
            if member is not None and member in proposal.frozen:
                jobs.append(MemberJob(proposal.parent_of(member), unit, frozen=member))
                sides.remove((side, member))
        by_parent: dict[int, dict[str, int]] = {}
        for side, member in sides:
            if member is not None:
                by_parent.setdefault(proposal.parent_of(member), {})[side] = member
        jobs += [
            MemberJob(parent, Unit(unit.direction, halves.get("plus"), halves.get("minus")))
            for parent, halves in by_parent.items()
        ]
    return jobs
