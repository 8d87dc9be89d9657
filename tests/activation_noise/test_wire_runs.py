"""Runs whose ranks send each other fitnesses of noise on activations as int8."""

import numpy as np
import pytest
import torch
from activation_lab import Made, bound
from support.thread_ranks import on_ranks
from torch import nn

from neuro_cli.activation_noise.estimator import Activation
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.distribution.semi_updates import SemiUpdates
from neuro_cli.fabric.base import World


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def trained(world: World, method, wire: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the centre before and after three generations, and the bytes that this rank has sent."""
    parts = bound(
        network, Made((3,), 2, 10), world, method, OpenAIES(0.05, shaping="raw"), precision=torch.float32, draws=8, wire=wire
    )
    parts.distribution.watch()  # as neuro train does: rank 0 scores the first generation more than once
    start, before = parts.algo.centre.numpy().copy(), world.traffic.sent
    for generation in range(3):
        parts.distribution.step(generation)
    return start, parts.algo.centre.numpy(), world.traffic.sent - before


def test_a_run_has_the_same_bits_on_any_number_of_ranks_and_is_near_the_exact_one():
    [(start, whole, _)] = on_ranks(1, lambda world: trained(world, Replicated(), "int8"))
    [(_, exact, _)] = on_ranks(1, lambda world: trained(world, Replicated(), "float32"))
    assert not np.array_equal(whole, exact)
    step, other = exact - start, whole - start
    assert step @ other > 0.95 * np.linalg.norm(step) * np.linalg.norm(other)
    for method in (Replicated, ChromosomeUpdates):
        for size in (2, 3):
            for _, centre, _ in on_ranks(size, lambda world, method=method: trained(world, method(), "int8")):
                assert np.array_equal(centre, whole)


def test_a_run_sends_a_quarter():
    sent = [on_ranks(2, lambda world, wire=wire: trained(world, Replicated(), wire))[0][2] for wire in ("int8", "float32")]
    assert sent[0] < 0.3 * sent[1]


def test_shaping_on_each_rank_sends_no_fitness_and_refuses_it():
    with pytest.raises(ConfigError, match=r"sampler\.wire=int8: distribution\.ranks_shaping=local sends no fitnesses"):
        on_ranks(2, lambda world: trained(world, SemiUpdates(ranks_shaping="local"), "int8"))
    with pytest.raises(ConfigError, match=r"sampler\.wire=int4: must be one of float32, int8"):
        Activation(wire="int4")
