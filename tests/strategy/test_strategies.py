"""Searches over a made-up fitness, with results that arrive in any order."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.model.module_cnn import LAYERS
from neuro_cli.search.engine import Engine
from neuro_cli.search.session import replay
from neuro_cli.strategy.base import Strategy
from neuro_cli.strategy.generational import Generational
from neuro_cli.strategy.outcome import TrainingOutcome
from neuro_cli.strategy.random import RandomSearch
from neuro_cli.strategy.space import Module, Space
from neuro_cli.strategy.steady_state import SteadyState

SPACE = Space(tuple(LAYERS), 5)
GAIN = {"1x1": 0, "3x3": 2, "3x1-1x3": 1, "5x5": 3, "5x1-1x5": 2}
MAKERS: dict[str, Callable[[], Strategy]] = {
    "generational": lambda: Generational(6, 0.5, 2, 2, "split"),
    "uniform": lambda: Generational(6, 0.5, 2, 2, "uniform"),
    "steady_state": lambda: SteadyState(6, 0.5, 2, 2, 3, "split"),
    "random": lambda: RandomSearch(6, 3),
}
ALL = pytest.mark.parametrize("kind", MAKERS)


def judged(module: Module) -> TrainingOutcome:
    """A fitness that grows with every layer; a tenth of all modules fail."""
    if sum(map(len, module)) % 10 == 9:
        return TrainingOutcome(module, error="out of luck")
    return TrainingOutcome(module, fitness=sum(GAIN[layer] for layer in module) / 15, loss=1 / len(module))


def searched(kind: str, seed: int = 1, trainings: int = 40, order: int = 0, judge=judged, space: Space = SPACE) -> Engine:
    """A whole search in which results arrive by the chances of ``order``."""
    engine = Engine(MAKERS[kind](), space, seed, trainings)
    chances, waiting = random.Random(order), engine.ask()
    while not engine.finished:
        engine.tell(judge(waiting.pop(chances.randrange(len(waiting)))))
        waiting += engine.ask()
    return engine


def found(engine: Engine) -> tuple:
    """What a search is: who was trained under which number, who the population is, the generations."""
    return engine.archive.started, engine.strategy.members, engine.strategy.generation, engine.best(5)


@ALL
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), order=st.integers(0, 1000), trainings=st.integers(1, 60))
def test_a_search_trains_as_many_as_asked_for_and_none_twice(kind, seed, order, trainings):
    told: list[Module] = []

    def judge(module: Module) -> TrainingOutcome:
        told.append(module)
        return judged(module)

    engine = searched(kind, seed, trainings, order, judge)
    assert len(told) == len(set(told)) == trainings
    assert len(engine.strategy.members) <= engine.strategy.population
    assert not any(member.error for member in engine.strategy.members)
    if any(not outcome.error for outcome in engine.archive.outcomes.values()):
        assert engine.strategy.members[0] == engine.best(1)[0]


@pytest.mark.parametrize("kind", ["generational", "uniform", "random"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), orders=st.tuples(st.integers(0, 1000), st.integers(0, 1000)))
def test_the_order_of_arrival_changes_nothing(kind, seed, orders):
    first, second = (searched(kind, seed, order=order) for order in orders)
    assert found(first) == found(second)


def test_steady_state_depends_on_the_order_of_arrival():
    assert len({tuple(searched("steady_state", order=order).archive.started) for order in range(20)}) > 1


@ALL
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), order=st.integers(0, 1000), cut=st.integers(0, 40))
def test_a_search_that_is_told_again_what_was_found_goes_on_as_it_would_have(kind, seed, order, cut):
    whole = searched(kind, seed, order=order)
    outcomes = list(whole.archive.outcomes.values())
    resumed = Engine(MAKERS[kind](), SPACE, seed, 40)
    replay(resumed, outcomes[:cut])
    resumed.ask()
    assert set(resumed.under_way).isdisjoint(outcome.module for outcome in outcomes[:cut])
    replay(resumed, outcomes[cut:])
    resumed.ask()
    assert found(resumed) == found(whole)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32), trainings=st.integers(1, 50))
def test_more_trainings_on_resume_are_a_search_with_more_from_the_start(seed, trainings):
    short, long = (searched("generational", seed, count) for count in (trainings, 50))
    resumed = Engine(MAKERS["generational"](), SPACE, seed, 50)
    replay(resumed, list(short.archive.outcomes.values()))
    resumed.ask()
    while not resumed.finished:
        resumed.tell(judged(resumed.under_way[0]))
        resumed.ask()
    assert found(resumed) == found(long)


def test_of_two_mutants_the_fitter_has_the_place():
    """Algorithm 1: parents of unlike lengths."""
    strategy = Generational(2, 1.0, 1, 2)
    engine = Engine(strategy, SPACE, 1, 100)
    seen = 0
    waiting = engine.ask()
    while not engine.finished:
        broods = list(engine._open)
        offspring = [max((judged(m) for m in brood.modules), key=lambda one: one.rank) for brood in broods]
        members = list(strategy.members)
        generation = strategy.generation
        while strategy.generation == generation and not engine.finished:
            engine.tell(judged(waiting.pop(0)))
            if strategy.generation != generation:
                whole = {*members, *(one for one in offspring if not one.error)}
                best = sorted(whole, key=lambda one: one.rank, reverse=True)
                assert strategy.members == best[:2]
                seen += any(len(brood.modules) == 2 for brood in broods)
            waiting += engine.ask()
    assert seen > 3


@ALL
def test_a_space_of_few_modules_is_searched_whole_and_then_the_search_ends(kind):
    engine = searched(kind, 1, 100, space=Space(("1x1", "3x3"), 2))
    assert engine.exhausted
    assert set(engine.archive.outcomes) == {("1x1",), ("3x3",), *((a, b) for a in ("1x1", "3x3") for b in ("1x1", "3x3"))}


def test_evolution_climbs_higher_than_random_search():
    """On a fitness of which nothing is left to chance, over 8 seeds."""

    def mean(kind: str) -> float:
        return sum(searched(kind, seed, 48).best(1)[0].fitness for seed in range(8)) / 8

    assert min(map(mean, ("generational", "uniform", "steady_state"))) > mean("random") + 0.05


def test_a_config_that_was_saved_without_a_crossover_means_the_one_of_then():
    assert Generational(6, 0.5, 2, 2).crossover == "uniform"
    assert found(searched("uniform", 3)) != found(searched("generational", 3))


def test_equal_accuracies_are_settled_by_the_loss():
    outcomes = [
        TrainingOutcome(("1x1",), 0.5, loss=0.4),
        TrainingOutcome(("3x3",), 0.5, loss=0.3),
        TrainingOutcome(("5x5",), error="x"),
    ]
    assert max(outcomes, key=lambda one: one.rank).module == ("3x3",)
    assert min(outcomes, key=lambda one: one.rank).module == ("5x5",)


def test_a_result_that_nobody_asked_for_is_refused():
    engine = Engine(MAKERS["random"](), SPACE, 1, 5)
    (first, *_) = engine.ask()
    engine.tell(judged(first))
    for module in (first, ("1x1",) * 5):
        with pytest.raises(UserError, match="this search has not asked for it"):
            engine.tell(TrainingOutcome(module, 0.5, 0.5))


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: Generational(8, 0.5, 9, 2), "strategy.tournament=9: must be an integer from 1 to 8"),
        (lambda: Engine(Generational(8, 0.5, 2, 2), Space(("1x1",), 3), 1, 9), "strategy.population=8: there are 3 modules"),
        (
            lambda: Engine(Generational(2, 0.5, 2, 4), Space(("1x1",), 3), 1, 9),
            "strategy.initial_layers=4: must be <= max_layers",
        ),
    ],
)
def test_bad_settings_are_one_line(make, line):
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(line)
