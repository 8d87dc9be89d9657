"""distribution=auto: it takes what its estimates say, and changes no bit of a run."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.configs import composed
from support.thread_ranks import on_ranks

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm
from neuro_cli.core.errors import ConfigError
from neuro_cli.distribution.auto import Auto, estimate
from neuro_cli.distribution.chromosome_updates import ChromosomeUpdates
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.fabric.cost import Cost, CostModel
from neuro_cli.fabric.simulated import SimulatedWorld
from neuro_cli.library.named import option
from neuro_cli.runner.build import build
from neuro_cli.runner.options import Options

FREE = CostModel(Cost(0.0, 1e30), Cost(0.0, 1e30))
DEAR = CostModel(Cost(10.0, 1e30), Cost(10.0, 1e30))
SETTING = ("model=MNIST_500K", "population=64", "batch_size=2", "threads=1")


class Alike(SingleProcess):
    """Rank 7 of 8 that all send the same."""

    size, rank = 8, 7

    def all_gather(self, own: np.ndarray, counts: list[int]) -> np.ndarray:
        return np.resize(own, sum(counts))


def job(cost, *overrides: str):
    world = Alike()
    world.cost = cost
    parts = build(Options(composed(*SETTING, "distribution=replicated", *overrides)), world)
    parts.threads.close()
    return parts.distribution.job


class Timed:
    """A clock on which a number of noise takes a nanosecond, and nothing else any time."""

    seconds = 0.0

    def partial_sums(self, generation, combination, members, start, stop):
        Timed.seconds += 1e-9 * len(members) * (stop - start)
        return torch.zeros(len(combination.moments), stop - start)


class TimedReplicated(Timed, Replicated):
    pass


class TimedChromosomeUpdates(Timed, ChromosomeUpdates):
    pass


@pytest.fixture
def made_clock(monkeypatch):
    monkeypatch.setattr("neuro_cli.distribution.auto.time.perf_counter", lambda: Timed.seconds)


def candidates():
    return {"replicated": TimedReplicated(), "chromosome_updates": TimedChromosomeUpdates()}


@pytest.mark.parametrize(
    ("cost", "best"),
    [
        (FREE, TimedChromosomeUpdates),  # an eighth of the noise
        (DEAR, TimedReplicated),  # no second collective
    ],
)
def test_the_cheaper_method_serves(cost, best, made_clock):
    assert type(Auto(candidates()).settled(job(cost))) is best


def test_the_wire_is_priced_by_the_cost_model():
    slow = CostModel(Cost(0.25, 1e6), Cost(0.25, 1e6))
    made = job(slow)
    size = 4 * made.columns
    assert estimate(Replicated(), made, slow).wire == 0.0
    assert estimate(ChromosomeUpdates(), made, slow).wire == pytest.approx(7 * 0.25 + 7 / 8 * size / 1e6)


@pytest.mark.parametrize("population", [64, 256])
def test_the_work_is_that_of_the_whole_population_and_of_the_slice(population, made_clock):
    """Estimated from 64 members."""
    made = replace(job(FREE), population=population)
    every = 1e-9 * population * made.columns
    assert estimate(TimedReplicated(), made, FREE).work == pytest.approx(every)
    assert estimate(TimedChromosomeUpdates(), made, FREE).work == pytest.approx(every / 8, rel=1e-4)


def test_one_rank_needs_no_choice_and_has_the_bits_of_local():
    def centre(distribution: str) -> torch.Tensor:
        parts = build(Options(composed("population=8", "batch_size=8", f"distribution={distribution}")), SingleProcess())
        for generation in range(2):
            parts.distribution.step(generation)
        parts.threads.close()
        return parts.algo.centre

    assert torch.equal(centre("auto"), centre("local"))


def test_an_algorithm_without_a_population_is_data_parallel(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    world = SimulatedWorld(2)
    with caplog.at_level(logging.INFO):
        parts = build(Options(composed("algo=sgd", "distribution=auto")), world)
    parts.threads.close()
    assert parts.distribution.name == "data_parallel"
    assert "distribution=auto: data_parallel" in caplog.text


def test_the_reason_is_logged(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("neuro_cli"), "propagate", True)
    with caplog.at_level(logging.INFO):
        Auto(candidates()).settled(job(DEAR))
    line = next(record.message for record in caplog.records if "distribution=auto" in record.message)
    assert line.startswith("distribution=auto: replicated; expected time of a generation apart from scoring: replicated ")
    assert "chromosome_updates" in line


def test_pairs_stay_whole_in_the_estimate_on_an_odd_number_of_ranks():
    """66 of 70 members stand for all on 65 ranks: with 65 the last one lacked its other side."""
    made = replace(job(FREE, "algo=ars", "population=70"), world=SimulatedWorld(65))
    assert estimate(Replicated(), made, FREE).work > 0


@pytest.mark.parametrize("candidates", [{}, {"x": 3}, {"x": ChromosomeUpdates(wire="int8")}])
def test_candidates_must_be_methods(candidates):
    with pytest.raises(ConfigError, match=r"distribution\.candidates"):
        Auto(candidates)


@pytest.mark.parametrize("algo", ["sep_cma_es", "cr_fm_nes", "xnes", "cma_es", "genetic"])
def test_an_algorithm_that_knows_its_population_is_estimated_with_more_members_than_are_timed(algo):
    """sep_cma_es took the better half of 64 for that of 200: numpy said that shapes do not fit, before the first generation."""

    def run(world) -> float:
        made = option("algo", algo, PopulationAlgorithm, 1)
        with Evolution(torch.ones(6), algo=made, population=200, world=world, threads=1) as es:
            es.tell([0.0] * len(es.ask()))
        return float(es.centre.sum())

    assert len(set(on_ranks(2, run))) == 1
