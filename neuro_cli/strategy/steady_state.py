"""Evolution without generations: when a brood has hatched, its fittest may enter the population, and the next is bred.

No worker waits for the slowest of a generation, but the outcome depends on the order in which results arrive.
"""

from neuro_cli.strategy.evolution import EvolutionaryStrategy


class SteadyState(EvolutionaryStrategy):
    """Steady state; ``outstanding``: candidates in training; the number of workers keeps all of them busy."""
