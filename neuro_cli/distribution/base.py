"""Interface of distribution methods, which assign scoring and summation to ranks and send the results.

A generation is the same for every method: the algorithm proposes, members are scored, fitnesses become weights, the
perturbations are summed by weight, the algorithm moves the centre. Methods differ in the ranks that do each part; with
global ranking they give the same centre. Every rank has the algorithm's complete state, and the same centre after a generation.

Legend: N ranks, P members, M columns, K rows of weights, C score columns, B examples.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from neuro_cli.algo.base import CentreAlgorithm, Combination, PopulationAlgorithm, Proposal, State, combination_of
from neuro_cli.core.clock import Clock
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.distribution.efficiency import EfficiencyMeter
from neuro_cli.distribution.finite import finite_members, ranked_last
from neuro_cli.distribution.method import Method
from neuro_cli.fabric.base import World
from neuro_cli.fabric.shares import shares
from neuro_cli.sampler.base import Estimator, Sampler
from neuro_cli.scoring.base import Scorer


@dataclass(frozen=True)
class PopulationContext:
    """Parts of a population's run on one rank, which a distribution method takes."""

    world: World
    algo: CentreAlgorithm
    sampler: Estimator
    scorer: Scorer
    clock: Clock
    population: int
    batch_size: int
    columns: int


@dataclass(frozen=True)
class StepReport:
    """Report of a generation: means over the members and their examples, the same on every rank; ``loss`` None without one.

    ``means`` (C,) of the score columns, None for an algorithm without a population. ``non_finite``: number of members without
    finite scores, which no mean includes.
    """

    fitness_mean: float
    fitness_best: float
    loss: float | None
    means: np.ndarray | None = None
    non_finite: int = 0


class Distribution(Method):
    """Base of the methods that distribute a population, or a batch; :meth:`step` is one generation.

    ``shares_members``: each rank scores its own members.
    ``sums_columns``: sums over some of the columns have the bits of sums over all.
    """

    shares_members = True
    sums_columns = False
    meter: EfficiencyMeter | None = None

    def settled(self, job: PopulationContext) -> "Distribution":
        """Bind to the parts of the run, and return the method that serves it: this one. Raises UserError as :meth:`bind` does."""
        self.bind(job)
        return self

    def bind(self, job: PopulationContext) -> None:
        """Take the parts of the run to distribute. Raises UserError where the method does not fit the ranks or the algorithm."""
        self.job = job
        self.check()
        job.sampler.serve(job.algo)
        job.algo.pair(job.sampler.antithetic)
        low, high = shares(job.population, job.world.size)[job.world.rank]
        self.members = range(low, high)

    @property
    def algo(self) -> PopulationAlgorithm:
        """Algorithm of the population that this method distributes."""
        assert isinstance(self.job.algo, PopulationAlgorithm)
        return self.job.algo

    def check(self) -> None:
        """Raise UserError where the distribution method cannot serve this job."""
        job = self.job
        if job.algo.uses_gradient:
            raise UserError(f"distribution={self.name}: algo=sgd has no population; allowed: local, data_parallel")
        if job.world.size > job.population:
            raise ConfigError("ranks", job.world.size, f"must be <= population={job.population}")

    def watch(self) -> EfficiencyMeter | None:
        """Start to time the parts of each generation; None where efficiencies have no meaning. Every rank calls this."""
        job = self.job
        if job.world.size > 1 and self.shares_members and not job.algo.uses_gradient:
            self.meter = EfficiencyMeter(job.world, job.clock, self.sums_alone, job.scorer)
        return self.meter

    @property
    def sums_alone(self) -> float:
        """Share of this rank's sums that a single rank with its members would compute: below 1 where ranks repeat sums."""
        return 1.0

    def step(self, generation: int) -> StepReport:
        """Run one generation. Raises CandidateError on every rank for a fitness that is not a finite number.

        With ``algo.non_finite=worst`` it is raised only if no member has a finite one.
        """
        if self.job.algo.uses_gradient:
            return self.gradient_step(generation)
        return self.learn(generation, self.scores(generation, self.algo.ask(generation)))

    def tell(self, generation: int, own: np.ndarray) -> StepReport:
        """Run the rest of a generation from the mean scores ``own`` (n, C) of this rank's ``members``.

        Every rank calls this, after ``algo.ask(generation)``. Raises CandidateError as :meth:`step` does.
        """
        return self.learn(generation, self.gathered(own))

    def learn(self, generation: int, scores: np.ndarray) -> StepReport:
        """Move the centre by the mean scores (P, C) of all members, the same on every rank."""
        algo = self.algo
        finite = finite_members(scores, generation, algo.non_finite, self.job.scorer.task)
        scored = scores if finite.all() else scores[finite]
        # weights have a column for each member, also for one without finite scores
        fitness = ranked_last(scores[:, 0], finite)
        with self.job.clock.phase("update"):
            combination = self.combination(generation, fitness)
        self.move(generation, combination)
        return self.report(generation, scored[:, 0].max(), scored.mean(axis=0), len(scored))

    def move(self, generation: int, combination: Combination) -> None:
        """Sum up by the weights and move the centre, some columns after the other where algorithm and method allow it."""
        if self.algo.votes:
            self.algo.tell(generation, torch.empty(0, self.job.columns, dtype=torch.float32))
            return
        spans = self.spans()
        for start, stop in spans:
            sums = self.combine(generation, combination, start, stop)
            with self.job.clock.phase("update"):
                self.algo.tell_span(generation, sums, start)
            del sums  # frees their memory before the next ones
        if not spans:
            sums = self.combine(generation, combination)
            with self.job.clock.phase("update"):
                self.algo.tell(generation, sums)

    def spans(self) -> list[tuple[int, int]]:
        """Return the columns that are summed one range after the other, without memory for a sum over all; empty: all at once."""
        serves = self.sums_columns and isinstance(self.job.sampler, Sampler)
        return (self.algo.spans or []) if serves else []

    def combination(self, generation: int, fitness: np.ndarray) -> Combination:
        """Return the algorithm's weights for the fitnesses (P,), after it got the projections of the noise it asks for."""
        algo = self.algo
        if algo.probe is not None:
            own = self.job.sampler.projections(generation, self.members, algo.probe)
            table = self.job.world.all_gather(own.ravel(), [2 * count for count in self._counts]).reshape(-1, 2)
            algo.probed(table[:, 0].copy(), table[:, 1].copy())
        return combination_of(algo, generation, fitness)

    @property
    def _counts(self) -> list[int]:
        """Members of each rank."""
        return [high - low for low, high in shares(self.job.population, self.job.world.size)]

    def scores(self, generation: int, proposal: Proposal) -> np.ndarray:
        """Score this rank's members and gather the mean scores (P, C) float64 of all, the same bits on every rank."""
        return self.gathered(self.own_scores(generation, proposal))

    def gathered(self, own: np.ndarray) -> np.ndarray:
        """Gather the scores (P, C) float64 of all members from each rank's ``own`` (n, C)."""
        columns = own.shape[1]
        with self.job.clock.phase("communicate"):
            scores = self.job.world.all_gather(own.ravel(), [count * columns for count in self._counts])
        return scores.reshape(-1, columns).astype(np.float64)

    def own_scores(self, generation: int, proposal: Proposal) -> np.ndarray:
        """Score this rank's members: mean scores (n, C) in the float type that ranks send."""
        scorer = self.job.scorer

        def score() -> np.ndarray:
            return scorer.scores(proposal, generation, self.members)

        return scorer.means(score() if self.meter is None else self.meter.scores(score))

    @abstractmethod
    def combine(self, generation: int, combination: Combination, start: int = 0, stop: int | None = None) -> Tensor:
        """Return the sums (K, stop - start) float32 over all members, the same bits on every rank.

        Called for all columns, without ``start`` and ``stop``, unless the method ``sums_columns``.
        """

    def partial_sums(self, generation: int, combination: Combination, members: range, start: int, stop: int) -> Tensor:
        """Compute the sums (K, stop - start) over ``members`` on this rank."""
        if start == stop:  # more ranks than blocks of columns
            return torch.empty(len(combination.weights), 0, device=self.job.algo.centre.device, dtype=torch.float32)
        with self.job.clock.phase("update"):
            weights = combination.weights[:, members.start : members.stop]
            unit = None if members.start else combination.unit  # a control variate is added once: with the first member

            def combine() -> Tensor:
                return self.job.sampler.combine(weights, combination.moments, generation, members, start, stop, unit)

            return combine() if self.meter is None else self.meter.sums(combine)

    def state(self) -> State:
        """Return the distribution's state that the next generation depends on, for a checkpoint, on rank 0.

        Every rank calls this, since ranks may have to gather it; other ranks get an empty state.
        """
        return State()

    def restore(self, state: State) -> None:
        """Restore the distribution's :meth:`state` of rank 0, perhaps of another method or another number of ranks."""

    def gradient_step(self, generation: int) -> StepReport:
        """Run one generation of an algorithm without a population; a method that serves one overrides this."""
        raise AssertionError(f"{self.name} serves no gradient algorithm")  # check() refuses it

    def report(self, generation: int, best: float, means: np.ndarray, members: int) -> StepReport:
        """Report a generation by the mean scores ``means`` (C,) of ``members`` with finite ones; the task may learn from them.

        Where scores are differences to the centre's, the report has the centre's.
        """
        reference = self.job.scorer.reference(generation)
        if reference is not None:
            means, best = reference, best + reference[0]
        self.job.scorer.task.absorb(generation, means, members)
        return StepReport(float(means[0]), float(best), self.loss_of(means), means, self.job.population - members)

    def loss_of(self, means: np.ndarray) -> float | None:
        """Return the loss among the mean scores (C,): its column, or else the negated fitness."""
        task = self.job.scorer.task
        if not task.has_loss:
            return None
        return float(means[task.score_names.index("loss")]) if "loss" in task.score_names else -float(means[0])
