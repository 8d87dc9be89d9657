"""Measurement of gains, with which a run chooses ``algo.sigma=auto`` and ``algo.optimizer.lr=auto`` before generation 0.

Every rank computes the table from gathered fitnesses, so all choose alike. The rules: :mod:`neuro_cli.algo.step_size.auto`.
"""

import logging
import math

import numpy as np
from torch import Tensor

from neuro_cli.algo.base import Proposal
from neuro_cli.algo.centre.optimizer import RATE, OptimizedCentre
from neuro_cli.algo.step_size.auto import RATES, SHORT, SIGMAS, STEPS, Auto, Gain, Gains, first_near
from neuro_cli.algo.step_size.by_size import by_size
from neuro_cli.core.messages.verbosity import say, verbose
from neuro_cli.core.schedule import schedules_of
from neuro_cli.runner.bind import Population

log = logging.getLogger(__name__)

STILL = 1e-12  # scale of members that all are the centre itself
BATCHES = 4  # batches on which centres are compared where members share theirs


def choose_open(population: Population, generation: int) -> None:
    """Measure gains, and choose the algorithm's open values before generation 0; every rank calls this in every generation."""
    auto = population.algo.auto
    if auto is None or auto.gains is not None or generation:
        return
    _Table(population, auto).measure()
    assert auto.gains is not None
    if population.world.rank == 0:
        log.info("%s", auto.gains)
        for line in [] if verbose() else str(auto.gains).split("\n"):
            say(line)


class _Table:
    """Measurement by steps of generations from ``at`` on, the first at the full rate, each on the examples of later ones."""

    def __init__(self, population: Population, auto: Auto) -> None:
        algo = population.algo
        assert isinstance(algo, OptimizedCentre)
        self._population, self._auto, self._algo, self._method = population, auto, algo, population.distribution
        self._at = max((schedule.warmup for schedule in schedules_of(algo)), default=0)
        self._initial = algo.centre.clone()
        self._live = algo.centre  # memory that the module to train may share
        self._fitness = dict[tuple[float, int], np.ndarray]()  # keyed by sigma and step

    def measure(self) -> None:
        """Fill the algorithm's table and begin it with the chosen values."""
        auto, sigma = self._auto, self._algo.sigma_for(self._population.layout)
        gains, self._before = Gains(), [self._compared(self._live, step) for step in range(STEPS)]
        chosen = sigma
        if auto.sigma:
            gains.sigmas = [self._gain(_rounded(sigma * factor), SHORT) for factor in SIGMAS]
            place = first_near([row.gain for row in gains.sigmas])
            chosen = gains.sigma = sigma if place is None else gains.sigmas[place].sigma
        if auto.rate:
            gains.rates = self._rates(chosen)
            place = first_near([row.gain for row in gains.rates])
            first = gains.rates[place or 0].rate  # the smallest where none gains: one by size fits Adam alone
            gains.rate = first if math.isfinite(first) else None
        if any(rows and all(row.gain <= 0 for row in rows) for rows in (gains.sigmas, gains.rates)):
            log.warning("%s=auto: no step gains anything: give numbers, or score more members or examples", auto.keys)
        self._population.begin(gains, self._restored())

    def _rates(self, sigma: float) -> list[Gain]:
        """Return the gains of rising rates, up to the first below a gain of the one before."""
        rows = list[Gain]()
        for factor in RATES:
            rows.append(self._gain(sigma, factor))
            if len(rows) > 1 and rows[-1].gain <= max(0.0, rows[-2].gain):
                break
        return rows

    def _restored(self) -> Tensor:
        return self._live.copy_(self._initial)

    def _gain(self, sigma: float, factor: float) -> Gain:
        """Return the gain by ``sigma`` and, where the rate is open, ``factor`` times the usual length of a step."""
        if not self._auto.rate:
            return Gain(sigma, float(self._algo.rate_at(self._at)), self._after(sigma, None))
        length = self._length(sigma)
        if length == 0:  # all members are equal
            return Gain(sigma, math.nan, -math.inf)
        rate = _rounded(by_size(RATE, self._population.layout.size) * factor / length)
        return Gain(sigma, rate, self._after(sigma, rate))

    def _after(self, sigma: float, rate: float | None) -> float:
        """Return the mean fitness after a step, less the one before, over all steps; minus infinity where it is not finite."""
        gains = []
        for step in range(STEPS):
            self._step(sigma, rate, step)
            gains.append((self._compared(self._algo.centre, step) - self._before[step]).mean())
        gain = float(np.mean(gains))
        return gain if math.isfinite(gain) else -math.inf

    def _length(self, sigma: float) -> float:
        """Return the root mean square of what a step by rate 1 adds to the parameters, 0 where fitnesses are not finite."""
        self._step(sigma, 1.0, 0)
        moved = (self._algo.centre.float() - self._initial.float()).cpu().numpy()
        length = math.sqrt(np.square(moved, dtype=np.float64).mean())  # numpy's sums depend on no thread
        return length if math.isfinite(length) else 0.0

    def _step(self, sigma: float, rate: float | None, step: int) -> None:
        """Take a first step of the algorithm by these values. Every rank sums over all members, so that no method rounds."""
        algo, method, job, at = self._algo, self._method, self._method.job, self._at + step
        algo.begin_with(sigma, rate, self._restored(), job.sampler.layout, job.population, job.sampler.noise.seed)
        proposal = method.algo.ask(self._at)  # sigma and rate belong to one generation, noise and examples to another
        if (sigma, step) not in self._fitness:
            self._fitness[sigma, step] = method.scores(at, proposal)[:, 0]
        fitness = self._fitness[sigma, step]
        if not np.isfinite(fitness).all():
            algo.centre.fill_(math.nan)
            return
        combination = method.algo.combination(self._at, fitness)
        method.algo.tell(self._at, method.partial_sums(at, combination, range(job.population), 0, job.columns))

    def _compared(self, centre: Tensor, step: int) -> np.ndarray:
        """Return fitnesses of ``centre`` on examples after those of the step: by all members where each has its own."""
        job, proposal = self._method.job, Proposal.around(centre, STILL)
        task = job.scorer.task
        if job.scorer.own_examples or task.own_noise:
            return self._method.scores(self._at + STEPS + step, proposal)[:, 0]
        pair = range(1 + job.sampler.antithetic)
        first = self._at + STEPS + step * BATCHES
        batches = range(first, first + BATCHES)
        own = np.array([job.scorer.means(job.scorer.scores(proposal, batch, pair))[0, 0] for batch in batches])
        return job.world.all_gather(own, [BATCHES] * job.world.size)[:BATCHES]


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
