"""Random search, the baseline: every candidate is a random module."""

from neuro_cli.strategy.base import Brood, Strategy


class RandomSearch(Strategy):
    """Strategy without memory, other than of the modules that were started."""

    def breed(self, number: int) -> Brood | None:
        module = self.space.fresh(self.random_numbers(number), self.archive.started, self.space.longest)
        return None if module is None else Brood(number, [module], "random")
