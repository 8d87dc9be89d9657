"""Rewards on the wire as int8: one byte for each member instead of four for each of its scores.

value = scale q with an integer q from -127 to 127, and a scale for each group of layers from the largest reward of all ranks. A
reward is rounded up or down at random so that its mean is itself. The random number is addressed by generation and member, so the
bits are the same on any number of ranks, one included. A reward that is not finite is -128, and arrives as NaN.

Legend: N ranks, n members of a rank, P members, G groups of layers.
"""

import numpy as np

from neuro_cli.activation_noise.addresses import Addresses
from neuro_cli.core.noise import ROUNDING_STREAM
from neuro_cli.sampler.base import Gather

LEVELS, LOST = 127, -128
BLOCK = 1024  # members that share a noise address


def gathered_int8(
    gather: Gather, addresses: Addresses, generation: int, own: np.ndarray, counts: list[int], first: int
) -> np.ndarray:
    """Return the rewards (P,) float64 of all members from a rank's ``own`` (n,) float32.

    ``counts`` (N,): members of each rank; ``first``: this rank's first member.
    """
    members = np.arange(first, first + len(own))
    finite, group = np.isfinite(own), addresses.group_of(members)
    largest = np.zeros(addresses.groups, np.float32)
    np.maximum.at(largest, group[finite], np.abs(own[finite]))
    scale = gather(largest, [len(largest)] * len(counts)).reshape(len(counts), -1).max(axis=0).astype(np.float64) / LEVELS
    step = np.where(scale > 0, scale, 1.0)[group]
    exact = np.where(finite, own, 0.0).astype(np.float64) / step
    rounded = np.clip(np.floor(exact + _thresholds(addresses, generation, members)), -LEVELS, LEVELS)
    codes = np.where(finite, rounded, LOST).astype(np.int8)
    gathered = gather(codes.view(np.uint8), counts).view(np.int8).astype(np.float64)
    values = gathered * scale[addresses.group_of(np.arange(len(gathered)))]
    return np.where(gathered == LOST, np.nan, values)


def _thresholds(addresses: Addresses, generation: int, members: np.ndarray) -> np.ndarray:
    """Draw a number in [0, 1) for each of ``members``, which are consecutive."""
    low, high = members[0] // BLOCK, members[-1] // BLOCK + 1
    words = addresses.noise.words(generation, range(int(low), int(high)), BLOCK, ROUNDING_STREAM).cpu().numpy()
    start = int(members[0] - low * BLOCK)
    return words.ravel()[start : start + len(members)].astype(np.float64) / 2.0**32
