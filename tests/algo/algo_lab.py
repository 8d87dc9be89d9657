"""Algorithms without models, tasks or samplers: generations of given noise on a landscape, and runs on any number of ranks."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from support.thread_ranks import on_ranks
from torch import Tensor, nn

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm, Proposal
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.fabric.base import SingleProcess, World
from neuro_cli.library.named import option

Landscape = Callable[[np.ndarray], np.ndarray]  # members (P, M) to fitnesses (P,)


def layout_of(size: int) -> ParameterLayout:
    return ParameterLayout(nn.Linear(size, 1, bias=False))


def noise_of(generation: int, population: int, size: int, mirrored: bool = True) -> np.ndarray:
    """(P, M) numbers of float32 as float64; in pairs (2j, 2j + 1) where they are mirrored."""
    drawn = np.random.default_rng(generation + 7).standard_normal((population, size)).astype(np.float32).astype(np.float64)
    if mirrored:
        drawn[1::2] = -drawn[0::2]
    return drawn


def members(proposal: Proposal, noise: np.ndarray) -> np.ndarray:
    """Members (P, M), by the definition in the contract."""
    rows = torch.from_numpy(noise).to(proposal.bases.dtype)
    change = proposal.transform or (lambda one: one)
    steps = proposal.scale * change(rows)
    bases = [proposal.bases[proposal.parent_of(member)] for member in range(len(noise))]
    return torch.stack([b if i in proposal.frozen else b + steps[i] for i, b in enumerate(bases)]).double().numpy()


def told(algo: PopulationAlgorithm, generation: int, noise: np.ndarray, fitness: np.ndarray | Landscape) -> None:
    """One generation, whose members have this noise (P, M)."""
    proposal = algo.ask(generation)
    if algo.probe is not None:
        algo.probed(np.linalg.norm(noise, axis=1), noise @ algo.probe.numpy())
    found = fitness(members(proposal, noise)) if callable(fitness) else fitness
    wanted, moments = algo.combination(generation, found), {1: noise, 2: noise**2 - 1}
    sums = np.stack([row @ moments[moment] for row, moment in zip(wanted.weights, wanted.moments, strict=True)])
    algo.tell(generation, torch.from_numpy(sums).to(algo.centre.dtype))


def started(algo: PopulationAlgorithm, centre: Tensor, population: int, mirrored: bool = True) -> PopulationAlgorithm:
    algo.pair(mirrored)
    algo.start(centre.clone(), layout_of(len(centre)), population, 3)
    return algo


def centres(
    algo: PopulationAlgorithm, landscape: Landscape, generations: int, population: int, start: Tensor, mirrored: bool = True
) -> np.ndarray:
    """Centres (G, M) of every generation."""
    started(algo, start, population, mirrored)
    kept = []
    for generation in range(generations):
        told(algo, generation, noise_of(generation, population, len(start), mirrored), landscape)
        kept.append(algo.centre.double().numpy().copy())
    return np.array(kept)


def evolved(world: World, algo: str, values: dict[str, Any], method: str, resumed: bool = False) -> list[np.ndarray]:
    """The solution and the centre of a network of two layers after four generations, ``resumed`` from a state in the middle."""
    inputs = torch.linspace(-1, 1, 30).view(10, 3).sin()

    def made() -> Evolution:
        module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        for place, parameter in enumerate(module.parameters()):
            nn.init._no_grad_fill_(parameter, 0.1 * (place + 1))
        own = option("algo", algo, PopulationAlgorithm, 4, values)
        return Evolution(module, algo=own, distribution=method, population=10, world=world, threads=1)

    es = made()
    for generation in range(4):
        if resumed and generation == 2:
            state, es = es.state_dict(), made()
            es.load_state_dict(state)
        es.step(lambda member, x, y: -((member(x) - y) ** 2).sum(1), inputs, inputs[:, :2])
    return [es.centre.numpy(), es._algo.centre.numpy().copy()]


def has_the_same_bits_on_ranks_and_after_a_resume(
    algo: str, values: dict[str, Any], methods: Sequence[str] = ("chromosome_updates",)
) -> list[np.ndarray]:
    whole = evolved(SingleProcess(), algo, values, "replicated")
    np.testing.assert_array_equal(evolved(SingleProcess(), algo, values, "replicated", resumed=True), whole)
    for method in methods:
        for one in on_ranks(3, partial(evolved, algo=algo, values=values, method=method)):
            np.testing.assert_array_equal(one, whole)
    return whole
