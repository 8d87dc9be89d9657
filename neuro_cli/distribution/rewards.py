"""Rewards on the wire as int8: one byte per member instead of four for each of its scores.

value = scale q with an integer q from -127 to 127; a scale for each group of layers, from the largest reward of all ranks. A
reward is rounded up or down by chance, in proportion, so that its mean is itself; the chance is addressed by generation and
member. So the bits are the same on any number of ranks, also on one. A reward that is not finite is -128, and comes back as no
number.

Legend: N ranks, n members of a rank, P members, G groups of layers.
"""

import numpy as np

from neuro_cli.core.noise import ROUNDING_STREAM
from neuro_cli.fabric.base import World
from neuro_cli.sampler.activation import Activation

LEVELS, LOST = 127, -128
BLOCK = 1024  # members with the words of one address


def gathered_int8(world: World, sampler: Activation, generation: int, own: np.ndarray, counts: list[int]) -> np.ndarray:
    """Rewards (P,) float64 of all members from each rank's ``own`` (n,) float32; ``counts`` (N,): n of each rank."""
    first = sum(counts[: world.rank])
    members = np.arange(first, first + len(own))
    finite, group = np.isfinite(own), sampler.group_of(members)
    largest = np.zeros(sampler.groups, np.float32)
    np.maximum.at(largest, group[finite], np.abs(own[finite]))
    scale = world.all_gather(largest, [len(largest)] * world.size).reshape(world.size, -1).max(axis=0).astype(np.float64) / LEVELS
    step = np.where(scale > 0, scale, 1.0)[group]
    exact = np.where(finite, own, 0.0).astype(np.float64) / step
    rounded = np.clip(np.floor(exact + _chances(sampler, generation, members)), -LEVELS, LEVELS)
    codes = np.where(finite, rounded, LOST).astype(np.int8)
    everyone = world.all_gather(codes.view(np.uint8), counts).view(np.int8).astype(np.float64)
    values = everyone * scale[sampler.group_of(np.arange(len(everyone)))]
    return np.where(everyone == LOST, np.nan, values)


def _chances(sampler: Activation, generation: int, members: np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each of ``members``, which are neighbours."""
    low, high = members[0] // BLOCK, members[-1] // BLOCK + 1
    words = sampler.noise.words(generation, range(int(low), int(high)), BLOCK, ROUNDING_STREAM).cpu().numpy()
    start = int(members[0] - low * BLOCK)
    return words.ravel()[start : start + len(members)].astype(np.float64) / 2.0**32
