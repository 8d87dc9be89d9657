"""Rules that end a run of ask and tell against pycma's, by runs of pycma whose points are told to ours."""

import cma
import numpy as np
import pytest
import torch
from algo_lab import started, told
from cma import evolution_strategy

from neuro_cli.algo.cma_es import CMAES
from neuro_cli.algo.sep_cma_es import SepCMAES
from neuro_cli.library.stopping import Stopping, Watched

N, POPULATION = 4, 8
TURN = np.linalg.qr(np.random.default_rng(5).standard_normal((N, N)))[0]


def rastrigin(x: np.ndarray) -> float:
    return float(10 * (N - np.cos(2 * np.pi * x).sum()) + x @ x)


def plateaus(x: np.ndarray) -> float:
    return float(np.floor(np.abs(x)).sum())


def slope(x: np.ndarray) -> float:
    return float(x.sum())


def ridge(x: np.ndarray) -> float:
    y = TURN @ (x - 3)
    return float(y[0] ** 2 + 100 * np.sqrt(y[1:] @ y[1:]))


@pytest.mark.parametrize(
    ("kind", "function", "theirs", "name"),
    [
        (CMAES, rastrigin, "tolfun", "tolfun"),
        (SepCMAES, rastrigin, "tolfun", "tolfun"),
        (CMAES, plateaus, "tolflatfitness", "flat"),
        (CMAES, slope, "tolfacupx", "tolfacupx"),
        (SepCMAES, slope, "tolfacupx", "tolfacupx"),
        (SepCMAES, ridge, "tolx", "tolx"),
    ],
)
def test_a_run_ends_in_the_generation_and_by_the_rule_of_pycma(kind, function, theirs, name):
    diagonal, start = kind is SepCMAES, np.random.default_rng(1).uniform(-4, 4, N)
    es = cma.CMAEvolutionStrategy(start, 2.0, {"popsize": POPULATION, "verbose": -9, "seed": 1, "CMA_diagonal": diagonal})
    if not diagonal:
        es.sm.C, es.sm.D, es.sm.B = np.eye(N), np.ones(N), np.eye(N)
    algo, rules, generation = started(kind(2.0), torch.from_numpy(start), POPULATION, mirrored=False), Stopping(), 0
    watched, ours = Watched(algo.deviations(0).numpy().copy()), {}
    while not es.stop() and not ours and generation < 3000:
        points = np.array(es.ask())
        costs = np.array([function(x) for x in points])
        scaled = (points - algo.centre.numpy()) / algo.ask(generation).scale.numpy()
        told(algo, generation, scaled if diagonal else np.linalg.solve(algo._form.numpy(), scaled.T).T, -costs)
        es.tell(list(points), list(costs))
        generation += 1
        watched.meet(costs)
        centre, deviations = algo.centre.numpy(), algo.deviations(generation).numpy()
        watched.meet_centre(centre, rules.tolxstagnation)
        condition, smooth = algo.condition(generation), np.ones(N, bool)
        ours = watched.reasons(rules, POPULATION, centre, deviations, condition, smooth, algo.stuck(generation))
    assert (list(es.stop()), list(ours)) == ([theirs], [name])
    assert generation > 15


def test_a_centre_that_stays_ends_a_run_as_in_pycma():
    rng, watched, rule, smooth = np.random.default_rng(3), Watched(np.ones(N)), 1e-3, np.ones(N, bool)
    rules = Stopping(tolxstagnation=rule)
    theirs, centre, ends = evolution_strategy._StopTolXStagnation(np.full(N, 9.0)).set_params([rule]), np.zeros(N), []
    for generation in range(1, 400):
        centre = centre + rng.standard_normal(N) * 0.97**generation
        theirs.update(centre)
        watched.meet(np.array([1.0, 2.0]))
        watched.meet_centre(centre, rule)
        assert ("tolxstagnation" in watched.reasons(rules, 2, centre, np.ones(N), 1.0, smooth)) == theirs.stop
        ends.append(theirs.stop)
    assert ends.index(True) > 200
    restored = Watched.restored(watched.state())
    assert (restored.anchor.tolist(), restored.anchored) == (watched.anchor.tolist(), watched.anchored)
    assert restored.state() == watched.state()
    earlier = {name: value for name, value in watched.state().items() if "anchor" not in name}
    assert Watched.restored(earlier).anchor is None


def test_a_centre_is_stuck_where_a_step_along_one_axis_changes_no_digit():
    algo = started(CMAES(1.0), torch.full((N,), 1000.0, dtype=torch.float64), POPULATION, mirrored=False)
    assert not any(algo.stuck(generation) for generation in range(N))
    lengths = np.array([1e-13, 5e-13, 1e-11, 1.0])
    algo._form = torch.from_numpy((TURN * lengths) @ TURN.T)
    algo._lengths = torch.from_numpy(lengths)
    by_axis = [bool((1000 + 0.1 * lengths[i] * TURN[:, i] == 1000).all()) for i in range(N)]
    assert [algo.stuck(generation) for generation in range(N)] == by_axis == [True, True, False, False]
    algo._centre.zero_()
    assert not any(algo.stuck(generation) for generation in range(N)), "zero has room for any step"
