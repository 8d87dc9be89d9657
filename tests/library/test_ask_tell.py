"""Ask and tell for a vector: bounds, stopping rules, restarts, ranks, exact state."""

import io
from functools import partial

import numpy as np
import pytest
import torch
from support.thread_ranks import on_ranks

from neuro_cli import AskTell, Bounds, Evolution, Stopping
from neuro_cli.algo.genetic import Genetic
from neuro_cli.algo.random_vote import RandomVote
from neuro_cli.core.errors import CandidateError, ConfigError, UserError
from neuro_cli.library.restarts import Restarts
from neuro_cli.library.stopping import Watched

N = 5
ALGORITHMS = ("cma_es", "sep_cma_es", "snes", "xnes", "cr_fm_nes", "openai_es", "pgpe", "ars", "genetic")


def ellipsoid(x: np.ndarray) -> float:
    return float((100 ** (np.arange(len(x)) / (len(x) - 1)) * x**2).sum())


def rastrigin(x: np.ndarray) -> float:
    return float(10 * (len(x) - np.cos(2 * np.pi * x).sum()) + (x**2).sum())


def test_cma_es_converges_in_float64_and_says_why_it_stopped():
    es = AskTell(np.full(N, 3.0), sigma=1.0, minimise=True, stopping=Stopping(target=1e-14))
    best = es.run(ellipsoid)
    assert best.fitness <= 1e-14
    assert best.fitness == ellipsoid(best.vector)
    assert type(best.vector) is type(es.centre) is np.ndarray
    assert es.stopped == {"target": 1e-14}
    assert es.evaluations == es.generation * 8 < 2500
    with pytest.raises(UserError, match="ask: stopped by target: `best` has the result"):
        es.ask()


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_does_what_evolution_does(algo):
    """Same noise and formulas; candidates and centre are float64 here and float32 there."""
    given = {"algo": algo, "sigma": 0.3, "population": 12, "seed": 4, "minimise": True}
    mine = AskTell(np.full(N, 0.5), stopping=Stopping(flat=None), **given)
    sampler = "antithetic" if algo in ("ars", "pgpe", "cr_fm_nes") else "iid"
    with Evolution(torch.full((N,), 0.5), sampler=sampler, threads=1, **given) as theirs:
        for _ in range(6):
            points, vectors = mine.ask(), theirs.ask().vectors.double().numpy()
            np.testing.assert_allclose(points, vectors, rtol=2e-3, atol=2e-4)
            fitnesses = [ellipsoid(x) for x in vectors]
            mine.tell(fitnesses)
            theirs.tell(fitnesses)
    assert mine.centre.dtype == np.float64


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_centre_that_was_handed_out_stays_as_it_was(algo):
    """A list of centres is not the last one over and over (findings/cmaes_live_mean.sh), and writing into one moves nothing."""
    searches = [AskTell(np.full(N, 0.5), algo=algo, sigma=0.3, population=12, minimise=True) for _ in range(2)]
    kept = searches[0].centre
    for search in searches:
        for _ in range(3):
            search.tell([ellipsoid(x) for x in search.ask()])
            if search is searches[0]:
                search.centre[:] = 7.0
    np.testing.assert_array_equal(kept, np.full(N, 0.5))
    np.testing.assert_array_equal(searches[0].centre, searches[1].centre)


@pytest.mark.parametrize("how", ["reflect", "clip", "smooth"])
def test_bounds_hold_for_candidates_best_and_centre(how):
    bounds = Bounds([-1.0, 0.5, -np.inf, 0.2, -2.0], [4.0, np.inf, -0.5, 0.3, 2.0], how)
    low, high = bounds.low, bounds.high
    start = np.array([1.0, 2.0, -3.0, 0.25, 0.0])
    es = AskTell(start, sigma=1.0, minimise=True, bounds=bounds, stopping=Stopping(evaluations=1200))
    seen = []

    def noted(x: np.ndarray) -> float:
        seen.append(x.copy())
        return ellipsoid(x)

    np.testing.assert_allclose(es.centre, start, rtol=1e-12)
    best = es.run(noted)
    assert all(((x >= low) & (x <= high)).all() for x in [*seen, es.centre, best.vector])
    assert ellipsoid(best.vector) == best.fitness == min(map(ellipsoid, seen))
    np.testing.assert_allclose(best.vector, [0.0, 0.5, -0.5, 0.2, 0.0], atol=0.05)


@pytest.mark.parametrize("how", ["reflect", "clip", "smooth"])
def test_a_map_of_bounds_has_an_inverse_and_no_jump(how):
    bounds = Bounds(np.array([-1.0, 0.5, -np.inf, -np.inf]), np.array([4.0, np.inf, -0.5, np.inf]), how).fit(4)
    points = np.random.default_rng(1).uniform([-1, 0.5, -9, -9], [4, 9, -0.5, 9], (50, 4))
    np.testing.assert_allclose([bounds.inside(bounds.outside(x)) for x in points], points, atol=1e-9)
    line = bounds.inside(np.linspace(-20, 20, 40_001)[:, None] * np.ones(4))
    assert (np.abs(np.diff(line, axis=0)) <= 0.001 + 1e-9).all(), "a step of 0.001 moves by no more"
    assert line[:, 3] == pytest.approx(np.linspace(-20, 20, 40_001))


def test_two_numbers_and_a_dict_stand_for_bounds_and_rules():
    plain = AskTell(np.zeros(N), bounds=(-1, 2), stopping={"evaluations": 30})
    named = AskTell(np.zeros(N), bounds=Bounds(-1, 2), stopping=Stopping(evaluations=30))
    assert plain.rules == named.rules
    np.testing.assert_array_equal(plain.ask(), named.ask())


def test_wrong_bounds_and_starts_are_refused():
    with pytest.raises(ConfigError, match="high=1: must be above low=1"):
        Bounds(1, 1)
    with pytest.raises(ConfigError, match="how=fold: must be one of reflect, clip, smooth"):
        Bounds(0, 1, "fold")
    with pytest.raises(ConfigError, match=r"start=.2. 2.*must be inside the bounds"):
        AskTell(np.full(N, 2.0), bounds=Bounds(0, 1))
    with pytest.raises(ConfigError, match="must be numbers, or vectors of 5"):
        AskTell(np.zeros(N), bounds=Bounds(np.zeros(3), 1.0))
    with pytest.raises(ConfigError, match=r"start=.*must be a vector of finite numbers"):
        AskTell(np.zeros((2, 2)))
    with pytest.raises(ConfigError, match="restarts=often: must be one of none, ipop, bipop"):
        AskTell(np.zeros(N), restarts="often")
    with pytest.raises(ConfigError, match="tolx=-1: must be a number > 0"):
        Stopping(tolx=-1)


def reasons_of(function, **rules) -> dict[str, float]:
    none = dict.fromkeys(("tolfun", "tolfunhist", "tolx", "tolfacupx", "condition", "tolxstagnation", "flat"))
    off = {**none, "stagnation": 0, "noeffect": False}
    es = AskTell(np.full(N, 0.5), sigma=0.3, minimise=True, stopping=Stopping(**{**off, "evaluations": 60_000, **rules}))
    es.run(function)
    return es.stopped


@pytest.mark.parametrize(
    ("rule", "value", "function"),
    [
        ("tolfun", 1e-6, ellipsoid),
        ("tolfunhist", 1e-6, ellipsoid),
        ("tolx", 1e-4, ellipsoid),
        ("tolfacupx", 10.0, lambda x: float(x[0])),
        ("condition", 50.0, ellipsoid),
        ("flat", 2, lambda x: 1.0),
        ("generations", 7, ellipsoid),
        ("noeffect", True, lambda x: ellipsoid(x - 1e3)),
        ("stagnation", 60, lambda x: float(np.sin(1e7 * x.sum()))),
        ("tolxstagnation", 1e-3, ellipsoid),
    ],
)
def test_each_rule_stops_by_itself(rule, value, function):
    assert list(reasons_of(function, **{rule: value})) == [rule]


@pytest.mark.parametrize("algo", [Genetic(sigma=0.1, parents=2), RandomVote(keep=2)])
def test_a_best_member_or_a_start_may_stay_for_long(algo):
    rules = Stopping(tolfun=None, tolfunhist=None, generations=50)
    es = AskTell(np.zeros(N), algo=algo, population=6, minimise=True, stopping=rules)
    generator = np.random.default_rng(1)
    es.run(lambda x: 1 + generator.random() if x.any() else 0.0)  # no member is better than the start
    assert es.stopped == {"generations": 50.0}


def test_equal_members_move_no_centre_and_are_counted_by_their_own_rule():
    es = AskTell(np.full(N, 7.0), integers=range(N), minimise=True)
    es.run(lambda x: 1.0)
    assert (es.generation, es.stopped) == (61, {"flat": 60.0})


def test_stagnation_is_that_of_medians():
    watched = Watched(np.ones(2))
    for generation in range(800):
        watched.meet(np.array([1.0 / (generation + 1), 2.0]))
    assert not watched.stagnates(100, 2), "the best improves"
    for _ in range(900):
        watched.meet(np.array([1.0, 2.0]))
    assert watched.stagnates(100, 2)


@pytest.mark.parametrize("restarts", ["ipop", "bipop"])
def test_restarts_leave_local_optima(restarts):
    rng_starts = lambda rng: rng.uniform(-4, 4, 3)  # noqa: E731
    once = AskTell(rng_starts, sigma=2.0, minimise=True, seed=3)
    once.run(rastrigin)
    assert once.best.fitness > 0.5, "a local one"
    es = AskTell(rng_starts, sigma=2.0, minimise=True, seed=3, restarts=restarts, stopping=Stopping(target=1e-8))
    assert es.run(rastrigin).fitness <= 1e-8
    assert len(es.ended) > 1
    assert es.population > once.population or restarts == "bipop"


def test_a_start_is_asked_for_once_a_run():
    points = iter(np.arange(4.0)[:, None] + np.zeros(N))
    es = AskTell(lambda rng: next(points), sigma=0.1, minimise=True, restarts="ipop", most_restarts=1)
    np.testing.assert_array_equal(es.centre, np.zeros(N))
    es.run(lambda x: 1.0)
    assert len(es.ended) == 2
    np.testing.assert_array_equal(next(points), np.full(N, 2.0))


def test_plans_of_restarts():
    plan = Restarts("ipop", 8, 1)
    populations = []
    for _ in range(3):
        plan.ended(100)
        populations.append(plan.plan()[0])
    assert populations == [16, 32, 64]
    plan, kinds = Restarts("bipop", 8, 1), []
    for _ in range(12):
        plan.ended(plan.first * 2**plan.doublings * 100 if not plan.is_small else 300)
        population, factor, most = plan.plan()
        kinds.append(plan.is_small)
        assert (population, factor, most) == (8 * 2**plan.doublings, 1.0, None) or (
            8 <= population <= 8 * 2**plan.doublings and 0.01 <= factor <= 1 and most == plan.large // 2
        )
    assert {*kinds} == {True, False}, "small and large runs"


def searched(world, restarts: str = "bipop") -> tuple[np.ndarray, float, int, list]:
    es = AskTell(
        lambda rng: rng.uniform(-4, 4, 3), sigma=2.0, minimise=True, seed=5, restarts=restarts, world=world,
        stopping=Stopping(evaluations=2500), bounds=Bounds(-5, 5), integers=[0],
    )  # fmt: skip
    es.run(rastrigin)
    return es.centre, es.best.fitness, es.generation, es.ended


def test_any_number_of_ranks_gives_the_same_bits():
    [whole] = on_ranks(1, searched)
    assert len(whole[3]) > 1, "it has restarted"
    for other in on_ranks(3, searched):
        assert np.array_equal(other[0], whole[0])
        assert other[1:] == whole[1:]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_saved_state_goes_on_with_the_same_bits(algo):
    make = partial(AskTell, np.full(N, 0.5), algo=algo, sigma=0.05, population=12, minimise=True, restarts="ipop", integers=[0],
                   stopping=Stopping(generations=9))  # fmt: skip
    es, again = make(), make()
    for generation in range(24):
        if generation == 14:  # in the second run
            file = io.BytesIO()
            torch.save(es.state_dict(), file)
            file.seek(0)
            again.load_state_dict(torch.load(file, weights_only=True))
        for one in (es, again) if generation >= 14 else (es,):
            one.tell([ellipsoid(x) for x in one.ask()])
    assert np.array_equal(again.centre, es.centre)
    assert (again.evaluations, again.population, again.ended) == (es.evaluations, es.population, es.ended)
    assert np.array_equal(again.best.vector, es.best.vector)
    assert type(again.best.vector) is np.ndarray
    with pytest.raises(ConfigError, match="seed=2: the saved state has 1"):
        make(seed=2).load_state_dict(es.state_dict())


LIMITS = ("tolfun", "tolfunhist", "tolx", "tolfacupx", "condition", "tolxstagnation", "flat")
OPEN = {**dict.fromkeys(LIMITS), "stagnation": 0, "noeffect": False}


def mixed_sphere(x: np.ndarray) -> float:
    """Sphere with its least at (2, -1, 0.3, 0.3), of which the first two numbers are rounded."""
    return float(((np.rint(x[:2]) - [2, -1]) ** 2).sum() + ((x[2:] - 0.3) ** 2).sum())


def mixed_search(algo: str, integers, **given) -> AskTell:
    given = {
        "sigma": 0.05,
        "population": 20,
        "seed": 1,
        "minimise": True,
        "stopping": Stopping(**OPEN, evaluations=2000, target=0.02),
    } | given
    return AskTell(np.zeros(4), algo=algo, integers=integers, **given)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_mixed_integer_sphere_is_solved_from_steps_that_rounding_hides(algo):
    seen = []

    def noted(x: np.ndarray) -> float:
        seen.append(x)
        return mixed_sphere(x)

    es = mixed_search(algo, [0, 1])
    best = es.run(noted)
    assert es.stopped == {"target": 0.02}
    assert best.vector[:2].tolist() == [2.0, -1.0]
    assert (np.array([*seen, es.centre])[:, :2] % 1 == 0).all()
    assert (np.array(seen)[:, 2:] % 1 != 0).any()


@pytest.mark.parametrize("algo", ["snes", "openai_es", "genetic"])
def test_rounding_alone_freezes_there(algo):
    es = mixed_search(algo, None)
    assert es.run(mixed_sphere).fitness > 0.9


def test_steps_that_shrink_with_other_parameters_do_not_freeze_integers():
    target = np.array([3, -7, 12, 0])
    steep = lambda x: float(((np.rint(x[:4]) - target) ** 2).sum() + 1e4 * ((x[4:] - 0.3) ** 2).sum())  # noqa: E731
    rules = Stopping(**OPEN, evaluations=4000, target=1e-6)
    given = {"sigma": 0.3, "population": 20, "seed": 3, "minimise": True, "stopping": rules}
    es = AskTell(np.ones(8), integers=[True] * 4 + [False] * 4, **given)
    assert es.run(steep).vector[:4].tolist() == target.tolist()
    assert AskTell(np.ones(8), **given).run(steep).fitness > 100, "the other parameters have taken the step size with them"


def test_an_integer_at_a_border_is_as_likely_as_one_between():
    es = AskTell(np.full(3, 1.0), algo="openai_es", sigma=50.0, population=6000, bounds=Bounds(-0.3, 2.9), integers=[0, 1, 2])
    values, counts = np.unique(es.ask(), return_counts=True)
    assert values.tolist() == [0.0, 1.0, 2.0]
    np.testing.assert_allclose(counts / counts.sum(), 1 / 3, atol=0.02)


def test_tell_refuses_what_does_not_fit():
    es = AskTell(np.zeros(N), minimise=True)
    with pytest.raises(UserError, match="tell: ask"):
        es.tell([1.0])
    points = es.ask()
    with pytest.raises(UserError, match="tell: 1 fitnesses for 8 candidates"):
        es.tell([1.0])
    with pytest.raises(CandidateError, match="fitness of member 2 in generation 1 is nan"):
        es.tell([0.0, 0.0, np.nan, *np.zeros(len(points) - 3)])


def test_results_in_any_order_have_the_bits_of_tell():
    searches = [AskTell(np.linspace(-1, 1, 4), population=7, sigma=0.5, minimise=True) for _ in range(2)]
    random = np.random.default_rng(1)
    for generation in range(5):
        whole, one = (search.ask() for search in searches)
        fitnesses = [float((x**2).sum()) for x in whole]
        searches[0].tell(fitnesses)
        ended = [searches[1].tell_one(generation, place, fitnesses[place]) for place in random.permutation(7).tolist()]
        assert ended == [False] * 6 + [True]
        assert np.array_equal(whole, one)
    assert np.array_equal(searches[0].centre, searches[1].centre)
    assert searches[1].late == 0


def test_late_and_second_results_are_dropped_and_counted():
    search = AskTell(np.zeros(3), population=4, sigma=0.5)
    search.ask()
    assert not search.tell_one(0, 2, 1.0)
    assert not search.tell_one(0, 2, 9.0)
    assert [search.tell_one(0, place, 0.0) for place in (0, 1, 3)] == [False, False, True]
    assert not search.tell_one(0, 1, 5.0)  # the generation is over
    search.ask()
    assert not search.tell_one(0, 1, 5.0)
    assert (search.late, search.best.fitness) == (3, 1.0)
    with pytest.raises(ConfigError, match="place=4"):
        search.tell_one(1, 4, 0.0)


def test_what_another_library_takes_is_one_line():
    for given, said in (
        ({"bounds": [(0, 5), (1, 6)]}, r"bounds=\[\(0, 5\), \(1, 6\)\]: must be two numbers \(low, high\), or neuro.Bounds"),
        ({"bounds": (1, -1)}, r"high=-1: must be above low=1"),
        ({"stopping": 1e-8}, r"stopping=1e-08: must be neuro.Stopping\(target=..., evaluations=...\), or a dict"),
        ({"stopping": {"targets": 0.0}}, r"stopping=.*has no argument targets; did you mean target\?"),
    ):
        with pytest.raises(ConfigError, match=said):
            AskTell(np.zeros(3), sigma=0.5, **given)
    with pytest.raises(UserError, match=r"tell: a fitness is None: does the function return its value\?"):
        AskTell(np.zeros(3), sigma=0.5).run(lambda x: None)
    with pytest.raises(UserError, match=r"tell: the fitnesses must be numbers: a fitness is 'low'"):
        AskTell(np.zeros(3), sigma=0.5).run(lambda x: "low")
