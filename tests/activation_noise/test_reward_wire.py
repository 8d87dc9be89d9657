"""Fitnesses on the wire as int8: no bias, the same bits on any number of ranks, one byte each."""

import numpy as np
import torch
from support.thread_ranks import on_ranks

from neuro_cli.activation_noise.addresses import Addresses
from neuro_cli.activation_noise.reward_wire import LEVELS, gathered_int8
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.fabric.base import World, shares

EXAMPLES, DRAWS = 30, 40
POPULATION = DRAWS * 2 * EXAMPLES * 2  # two groups of layers, in pairs


def addresses() -> Addresses:
    return Addresses(Noise(5, 8, torch.device("cpu"), Threads(1)), EXAMPLES, 1, (7, 3), DRAWS, False, 2)


def rewards() -> np.ndarray:
    """Draw rewards, those of the second layer a thousand times smaller."""
    drawn = np.random.default_rng(0).standard_normal(POPULATION).astype(np.float32)
    return drawn * np.where(addresses().group_of(np.arange(POPULATION)) == 1, np.float32(1e-3), np.float32(1))


def gathered(size: int, values: np.ndarray, generation: int = 3) -> tuple[np.ndarray, int]:
    """Return the values that all ranks have afterwards, and the bytes that rank 0 has sent."""
    parts = shares(len(values), size)

    def run(world: World) -> tuple[np.ndarray, int]:
        low, high = parts[world.rank]
        made = gathered_int8(world.all_gather, addresses(), generation, values[low:high], [b - a for a, b in parts], low)
        return made, world.traffic.sent

    made = on_ranks(size, run)
    assert all(np.array_equal(values, made[0][0], equal_nan=True) for values, _ in made)
    return made[0]


def test_the_bits_are_the_same_on_any_number_of_ranks_and_a_byte_each():
    values = rewards()
    whole, _ = gathered(1, values)
    for size in (2, 3, 7):
        made, sent = gathered(size, values)
        assert np.array_equal(made, whole)
        assert sent == shares(POPULATION, size)[0][1] + 2 * 4
    assert not np.array_equal(gathered(1, values, 4)[0], whole)


def test_values_are_a_step_apart_at_most_and_each_group_has_its_own_step():
    values, group = rewards(), addresses().group_of(np.arange(POPULATION))
    made, _ = gathered(2, values)
    for number in (0, 1):
        step = float(np.abs(values[group == number]).max()) / LEVELS
        assert np.abs(made - values)[group == number].max() < step * (1 + 1e-9)
        np.testing.assert_allclose(made[group == number] / step, np.round(made[group == number] / step), atol=1e-6)
    assert np.abs(made[group == 1]).max() < 0.01


def test_the_mean_over_generations_is_the_value_itself():
    values = rewards()[: 4 * EXAMPLES]
    made = np.mean([gathered(1, values, generation)[0] for generation in range(400)], axis=0)
    step = np.abs(values).max() / LEVELS
    assert np.abs(made - values).max() < 5 * 0.5 * step / 400**0.5


def test_what_is_no_number_stays_none():
    values = rewards()
    values[[3, 70]] = np.nan, np.inf
    made, _ = gathered(3, values)
    assert np.flatnonzero(~np.isfinite(made)).tolist() == [3, 70]
    assert not gathered(2, np.zeros(POPULATION, np.float32))[0].any()
