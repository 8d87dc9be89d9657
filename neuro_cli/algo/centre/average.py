"""Exponential average of centres, which is evaluated and saved while training continues from the last centre.

Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
"""

from torch import Tensor


def follow(average: Tensor, centre: Tensor, share: float, step: int) -> None:
    """Move ``average`` (n,) towards ``centre`` (n,) after step 0, 1, ...; ``share`` in [0, 1): of the past.

    The share is at most (1 + step) / (10 + step), so that the initial centre is soon forgotten. Each operation rounds once, so
    that every processor and thread count gives the same bits.
    """
    average.sub_(centre).mul_(min(share, (1 + step) / (10 + step))).add_(centre)
