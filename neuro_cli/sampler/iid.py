"""Independent perturbations: eps_i ~ N(0, I), one direction of noise a member."""

from neuro_cli.sampler.base import Sampler


class Iid(Sampler):
    def side(self, member: int) -> tuple[int, int]:
        return member, 1
