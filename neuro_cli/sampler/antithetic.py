"""Antithetic pairs: members 2j and 2j + 1 have +noise[j] and -noise[j] (mirrored sampling, Brockhoff et al. 2010)."""

from neuro_cli.core.errors import ConfigError
from neuro_cli.sampler.base import Sampler


class Antithetic(Sampler):
    def check(self, population: int) -> None:
        if population % 2:
            raise ConfigError("population", population, "sampler=antithetic needs an even population")

    def side(self, member: int) -> tuple[int, int]:
        return member // 2, 1 - 2 * (member % 2)
