"""Ask and tell for a vector in float64: bounds, stopping rules and restarts, for functions of few parameters.

Every rank draws the noise of all members, so ranks exchange only fitnesses.

Legend: P members, n of them on this rank, M parameters.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import WORST, PopulationAlgorithm, Proposal, State, combination_of
from neuro_cli.algo.step_size.auto import AUTO
from neuro_cli.core.checks import boolean, integer, one_of
from neuro_cli.core.errors import CandidateError, ConfigError, UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads, threads_kept
from neuro_cli.core.messages.did_you_mean import suggesting
from neuro_cli.core.noise import Noise
from neuro_cli.core.seeds import numbers_of
from neuro_cli.distribution.finite import ranked_last
from neuro_cli.fabric.base import World
from neuro_cli.fabric.network import Network
from neuro_cli.fabric.shares import shares
from neuro_cli.library.bounds import Bounds
from neuro_cli.library.candidates import Best, best_of_all, fitnesses_of
from neuro_cli.library.integers import Integers, least_deviation, mask_of, with_room
from neuro_cli.library.loop import FORMAT, refuse_other
from neuro_cli.library.named import Point, option
from neuro_cli.library.restarts import BIPOP, IPOP, NONE, START, Restarts
from neuro_cli.library.stopping import Stopping, Watched
from neuro_cli.runner.consensus import collectively
from neuro_cli.sampler.base import Sampler

Start = Callable[[np.random.Generator], Any]


@dataclass
class Run:
    """Run of an algorithm between restarts of ask and tell. ``most``: limit of its evaluations, None: no limit.

    ``integers``: map of the algorithm's points, None where no parameter is an integer.
    """

    algo: PopulationAlgorithm
    sampler: Sampler
    population: int
    factor: float
    most: int | None
    watched: Watched
    integers: Integers | None

    def placed(self, points: np.ndarray) -> np.ndarray:
        """Return points (.., M) of the algorithm in the search."""
        return points if self.integers is None else self.integers.stretched(points)


def _box_of(bounds: Any) -> Bounds:
    """Return what a script gives as bounds. Raises ConfigError.

    Pairs of vectors are refused: SciPy's pairs of numbers, one for each parameter, look the same for two parameters.
    """
    if isinstance(bounds, tuple | list) and len(bounds) == 2 and all(isinstance(side, int | float) for side in bounds):
        return Bounds(*bounds)
    if bounds is not None and not isinstance(bounds, Bounds):
        raise ConfigError("bounds", bounds, "must be two numbers (low, high), or neuro.Bounds(low, high)")
    return bounds or Bounds()


def _rules_of(stopping: Any) -> Stopping | None:
    """Return what a script gives as stopping rules. Raises ConfigError."""
    if isinstance(stopping, Mapping):
        try:
            return Stopping(**stopping)
        except TypeError as error:
            raise ConfigError("stopping", dict(stopping), str(error)) from error
    if stopping is not None and not isinstance(stopping, Stopping):
        allowed = "must be neuro.Stopping(target=..., evaluations=...), or a dict of its limits"
        raise ConfigError("stopping", stopping, allowed)
    return stopping


@suggesting
class AskTell:
    """Search for the best vector of a function by ask and tell, with bounds, stopping rules and restarts.

    Under a launcher every rank runs the same script and evaluates its share. Raises ConfigError.

    - ``start``: a vector (M,), or a function of a numpy Generator that returns one.
    - ``algo``, ``sampler``: names of options, or objects. ``sampler`` None: iid, or antithetic where the algorithm needs pairs.
    - ``population``: members per generation; None: 4 + 3 ln M.
    - ``sigma``: initial standard deviation of an ``algo`` by name; None: that of its file in ``conf/algo``.
    - ``seed``: the noise's, in [0, 2**64). ``minimise``: a lower fitness is better. ``world``: the ranks; None: the launcher's.
    - ``bounds`` of candidates: two numbers, or :class:`neuro_cli.Bounds`; None: none.
    - ``integers``: indices, or a mask (M,), of integer parameters.
    - ``stopping``: rules that end a run, a :class:`neuro_cli.Stopping` or a dict of its limits; None: pycma's.
    - ``restarts``: none | ipop, the population doubles | bipop, also short runs with small steps. At most ``most_restarts``.
    """

    def __init__(
        self,
        start: Any,
        *,
        algo: str | PopulationAlgorithm = "cma_es",
        sampler: str | Sampler | None = None,
        population: int | None = None,
        sigma: float | None = None,
        seed: int = 1,
        minimise: bool = False,
        bounds: Bounds | tuple[float, float] | None = None,
        integers: Any = None,
        stopping: Stopping | Mapping[str, Any] | None = None,
        restarts: str = NONE,
        most_restarts: int = 9,
        world: World | None = None,
    ) -> None:
        self._sign = -1.0 if boolean("minimise", minimise) else 1.0
        box, rules = _box_of(bounds), _rules_of(stopping)
        self.seed = integer("seed", seed, 0, 2**64 - 1)
        self._algo = option("algo", algo, PopulationAlgorithm, None, {"sigma": sigma})
        chosen = ("antithetic" if self._algo.needs_pairs else "iid") if sampler is None else sampler
        self._sampler = option("sampler", chosen, Sampler, None)
        network = option("fabric", "native", Network, None)
        self.world = network.connect(False) if world is None else world
        self._start = start
        first = self._point_of(0)
        self._size = len(first)
        self._whole = mask_of(integers, self._size)
        self._bounds = with_room(box.fit(self._size), self._whole)
        self.rules = rules or (Stopping.of_integers() if self._whole.any() else Stopping())
        if population is None:
            population = 4 + int(3 * math.log(self._size))
        self._restarts = Restarts(one_of("restarts", restarts, (NONE, IPOP, BIPOP)), self._even(population), self.seed)
        if restarts == BIPOP and not hasattr(self._algo, "sigma"):
            raise ConfigError("restarts", restarts, f"{type(self._algo).__name__} has no step size of its own before it begins")
        self._most = integer("most_restarts", most_restarts, 0)
        self.generation = self.evaluations = 0  # sums over all runs
        self.best: Best | None = None
        self.stopped: dict[str, float] = {}  # rules that ended it, with their limits; empty while it runs
        self.ended: list[dict[str, float]] = []  # rules that ended each run
        self.late = 0  # results of tell_one that were dropped
        self._arrived: dict[int, float] = {}  # fitnesses of the present generation by place
        self._asked: tuple[Proposal, np.ndarray] | None = None
        self._run = self._begin(population, 1.0, None, first)  # a function that returns it may return another one next time

    def _even(self, population: int) -> int:
        return population + population % 2 if self._sampler.antithetic else population

    def _point_of(self, run: int) -> np.ndarray:
        """Return the start (M,) of a run, in the user's units. Raises ConfigError."""
        given = self._start(numbers_of(self.seed, START, run)) if callable(self._start) else self._start
        point = np.array(given.detach().double().cpu().numpy() if isinstance(given, Tensor) else given, np.float64)
        if point.ndim != 1 or not len(point) or not np.isfinite(point).all():
            raise ConfigError("start", type(given).__name__, "must be a vector of finite numbers, or a function that gives one")
        return point

    def _begin(self, population: int, factor: float, most: int | None, first: np.ndarray | None = None) -> Run:
        """Begin a run with ``factor`` on the initial step size, from ``first``, None: the start's for this run."""
        population = integer("population", self._even(population), max(1, self.world.size), 2**32 - 1)
        algo, sampler = copy.deepcopy(self._algo), copy.deepcopy(self._sampler)
        if factor != 1.0:
            algo.sigma *= factor  # type: ignore[attr-defined]  # checked at the start
        if algo.auto is not None:
            raise ConfigError(algo.auto.keys.split()[0], AUTO, "is measured by neuro train and Evolution; AskTell needs a number")
        with threads_kept():
            point = Point(torch.zeros(self._size))
            layout = ParameterLayout(point)
            sampler.bind(Noise(self.seed, self._size, torch.device("cpu"), Threads(1)), population, layout)
            sampler.serve(algo)
            algo.pair(sampler.antithetic)
            begin = self._point_of(self._restarts.runs) if first is None else first
            centre = torch.from_numpy(self._bounds.outside(begin).copy())
            algo.start(centre, layout, population, self.seed)
            spread = algo.deviations(0).double().numpy().copy()
        low, high = shares(population, self.world.size)[self.world.rank]
        self.members = range(low, high)  # this rank's
        some = int(self._whole.sum())
        integers = Integers(self._whole, least_deviation(self._size, some, population)) if some else None
        return Run(algo, sampler, population, factor, most, Watched(spread), integers)

    @property
    def population(self) -> int:
        """Members per generation of the present run of ask and tell."""
        return self._run.population

    @property
    def centre(self) -> np.ndarray:
        """Present solution (M,) of a run of ask and tell, a copy, in the user's units."""
        return self._handed_out(self._run.algo.solution.numpy().copy())

    @property
    def sigma(self) -> float | None:
        """Standard deviation of the next candidates, the mean over the parameters."""
        return self._run.algo.sigma_at(self._run.watched.generation)

    def ask(self) -> np.ndarray:
        """Return this rank's share (n, M) float64 of the next candidates, inside the bounds."""
        if self.stopped:
            raise UserError(f"ask: stopped by {', '.join(self.stopped)}: `best` has the result")
        run = self._run
        with threads_kept():  # sums of a library may be rounded by the number of threads
            proposal = run.algo.ask(run.watched.generation)
            if run.integers is not None:
                run.integers.widen(run.algo.centre.double().numpy(), run.algo.deviations(run.watched.generation).double().numpy())
            directions, signs = run.sampler.signed_directions(np.arange(run.population))
            run.sampler.prepare(self.generation, range(run.sampler.directions))
            drawn = run.sampler.explicits(self.generation, range(run.sampler.directions)).numpy().astype(np.float64)
            noise = drawn[directions] * signs[:, None]
            self._asked, self._arrived = (proposal, noise), {}
            return self._points(proposal, noise, self.members)

    def _points(self, proposal: Proposal, noise: np.ndarray, members: range) -> np.ndarray:
        """Return candidates (n, M) in the user's units."""
        rows = noise[members.start : members.stop]
        if proposal.transform is not None:
            rows = proposal.transform(torch.from_numpy(rows)).numpy()
        bases = proposal.bases.numpy()[[proposal.parent_of(member) for member in members]]
        steps = proposal.scale.double().numpy() * rows
        steps[[member - members.start for member in proposal.frozen if member in members]] = 0.0
        return self._handed_out(bases + steps)

    def _handed_out(self, points: np.ndarray) -> np.ndarray:
        """Return points (.., M) of the algorithm in the user's form: inside the bounds, and integers where required."""
        inside, integers = self._bounds.inside(self._run.placed(points)), self._run.integers
        return inside if integers is None else integers.rounded(inside, self._bounds)

    def tell(self, fitnesses: Sequence[float] | np.ndarray | Tensor) -> None:
        """Learn from the fitnesses (n,) of :meth:`ask`'s candidates, in order; then :attr:`stopped` may have reasons.

        Every rank calls this with its own. Raises UserError for another number of them, CandidateError where one is not finite.
        """
        run = self._run
        with threads_kept(), collectively(self.world):
            if self._asked is None:
                raise UserError("tell: ask() comes first, and gives the next candidates")
            own = fitnesses_of(fitnesses, len(self.members))
        own = own * self._sign
        counts = [high - low for low, high in shares(run.population, self.world.size)]
        scores = self.world.all_gather(own, counts).astype(np.float64)
        finite = np.isfinite(scores)
        if not finite.all() and (run.algo.non_finite != WORST or not finite.any()):
            member = int(np.flatnonzero(~finite)[0])
            raise CandidateError(
                f"fitness of member {member} in generation {self.generation + 1} is {self._sign * scores[member]}"
            )
        scores = ranked_last(scores, finite)
        with threads_kept():
            self._keep_best(own)
            self._learn(run, scores)
        self._asked = None
        self.generation += 1
        self.evaluations += run.population
        run.watched.meet(-scores)
        self._apply_rules(run)

    def tell_one(self, generation: int, place: int, fitness: float) -> bool:
        """Take the fitness of candidate ``place`` of :meth:`ask`, in any order; the last one ends the generation.

        ``generation``: :attr:`generation` when it was asked for. One of another generation, or a second one, is dropped and
        counted in :attr:`late`. Returns whether a generation ended. Several ranks end it together. Raises as :meth:`tell`.
        """
        integer("place", place, 0, len(self.members) - 1)
        if generation != self.generation or self._asked is None or place in self._arrived:
            self.late += 1
            return False
        self._arrived[place] = float(fitnesses_of([fitness], 1)[0])
        if len(self._arrived) < len(self.members):
            return False
        arrived, self._arrived = self._arrived, {}
        self.tell([arrived[each] for each in range(len(arrived))])
        return True

    def _keep_best(self, own: np.ndarray) -> None:
        assert self._asked is not None
        highest, member = best_of_all(own, self.members, self.world)
        if np.isfinite(highest) and (self.best is None or highest > self._sign * self.best.fitness):
            vector = self._points(*self._asked, range(member, member + 1))[0]
            self.best = Best(self._sign * highest, vector.copy(), self.generation)

    def _learn(self, run: Run, scores: np.ndarray) -> None:
        assert self._asked is not None
        generation, noise = run.watched.generation, self._asked[1]
        if run.algo.probe is not None:
            probe = run.algo.probe.double().numpy()
            run.algo.probed(np.sqrt(np.einsum("pm,pm->p", noise, noise)), np.einsum("pm,m->p", noise, probe))
        wanted = combination_of(run.algo, generation, scores)
        run.algo.tell(generation, torch.from_numpy(_sums(wanted.weights, wanted.moments, noise)))

    def _apply_rules(self, run: Run) -> None:
        """Apply the rules; a run that ended is followed by the next one where restarts are left."""
        rules, finite = self.rules, {}
        assert self.best is not None
        if rules.target is not None and self._sign * self.best.fitness >= self._sign * rules.target:
            finite["target"] = rules.target
        if rules.evaluations is not None and self.evaluations >= rules.evaluations:
            finite["evaluations"] = float(rules.evaluations)
        generation = run.watched.generation
        centre, deviations = run.placed(run.algo.centre.double().numpy()), run.algo.deviations(generation).double().numpy()
        if run.integers is not None:
            deviations = deviations * run.integers.stretch
        if rules.tolxstagnation is not None and not run.algo.still:
            run.watched.meet_centre(centre, rules.tolxstagnation)
        condition, stuck = run.algo.condition(generation), rules.noeffect and run.algo.stuck(generation)
        reasons = run.watched.reasons(rules, run.population, centre, deviations, condition, ~self._whole, stuck)
        if run.most is not None and generation * run.population >= run.most:
            reasons["budget"] = float(run.most)
        if not finite and not reasons:
            return
        self.ended.append({**finite, **reasons})
        if finite or self._restarts.kind == NONE or self._restarts.doublings >= self._most:
            self.stopped = {**finite, **reasons}
            return
        self._restarts.ended(generation * run.population)
        self._run = self._begin(*self._restarts.plan())

    def run(self, function: Callable[[np.ndarray], float]) -> Best:
        """Ask, call ``function`` on every candidate (M,) and tell, until a rule stops it. Every rank calls this."""
        while not self.stopped:
            self.tell([function(candidate) for candidate in self.ask()])
        assert self.best is not None
        return self.best

    def state_dict(self) -> dict[str, Any]:
        """Return the search's tensors and values: :meth:`load_state_dict` resumes with the same bits on any number of ranks."""
        run, algo = self._run, self._run.algo.state()
        state: dict[str, Any] = {
            "format": FORMAT,
            "settings": self._settings(),
            "run": {"population": run.population, "factor": run.factor, "most": run.most, "watched": run.watched.state()},
            "restarts": asdict(self._restarts),
            "counts": [self.generation, self.evaluations],
            "ended": copy.deepcopy(self.ended),
            "stopped": dict(self.stopped),
            "tensors": algo.tensors,
            "scalars": copy.deepcopy(algo.scalars),
        }
        if run.integers is not None:
            state["run"] |= {"offset": run.integers.offset.tolist(), "stretch": run.integers.stretch.tolist()}
        if self.best is not None:
            state["best"] = {**self.best._asdict(), "vector": torch.from_numpy(self.best.vector.copy())}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``, which ``torch.load(path, weights_only=True)`` can read. Every rank calls this.

        Raises ConfigError for the state of another search.
        """
        refuse_other(self._settings(), state)
        self._restarts = Restarts(**state["restarts"])
        kept = state["run"]
        self._run = self._begin(kept["population"], kept["factor"], kept["most"])
        self._run.algo.restore(copy.deepcopy(State(state["tensors"], state["scalars"])))
        if self._run.integers is not None:
            self._run.integers.offset, self._run.integers.stretch = np.array(kept["offset"]), np.array(kept["stretch"])
        self._run.watched = Watched.restored(kept["watched"])
        self.generation, self.evaluations = state["counts"]
        self.ended, self.stopped = copy.deepcopy(state["ended"]), dict(state["stopped"])
        best = state.get("best")
        self.best = None if best is None else Best(**{**best, "vector": best["vector"].numpy().copy()})
        self._asked = None

    def _settings(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "parameters": self._size,
            "minimise": self._sign < 0,
            "algo": type(self._algo).__name__,
            "sampler": f"{type(self._sampler).__name__}(antithetic={self._sampler.antithetic})",
            "bounds": self._bounds.how,
            "integers": np.flatnonzero(self._whole).tolist() or None,  # None, as in states from before whole numbers
            "restarts": self._restarts.kind,
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{key}={value}" for key, value in self._settings().items())
        return f"AskTell(generation={self.generation}, evaluations={self.evaluations}, {facts})"


def _sums(weights: np.ndarray, moments: tuple[int, ...], noise: np.ndarray) -> np.ndarray:
    """Return row k, the sum over i of weights[k, i] * moment_k(noise[i]), by loops in a stated order instead of a BLAS."""
    if len(weights) == len(noise) and (weights == np.eye(len(noise))).all():  # every member's own noise
        return noise.copy()
    out = np.empty((len(weights), noise.shape[1]))
    for moment in set(moments):
        rows = [row for row, of_row in enumerate(moments) if of_row == moment]
        out[rows] = np.einsum("kp,pm->km", weights[rows], noise if moment == 1 else noise**2 - 1.0)
    return out
