"""Scoring by the fitness functions of the user's own loop."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.memory import give_back_memory
from neuro_cli.core.module.copies import has_pages
from neuro_cli.fabric.base import World
from neuro_cli.library.fitness import FitnessTask
from neuro_cli.runner.consensus import collectively
from neuro_cli.scoring.answers import generators_kept
from neuro_cli.scoring.base import PopulationScorer, ScoringSettings
from neuro_cli.scoring.batched import BatchedScorer
from neuro_cli.scoring.candidate import Candidate, brief
from neuro_cli.scoring.choice import scorer_of, scorer_under_autocast
from neuro_cli.scoring.isolation import InputCopies
from neuro_cli.scoring.jobs import write_members
from neuro_cli.scoring.members import MemberScorer
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.restore import kept
from neuro_cli.scoring.tolerance import tolerance

OTHERWISE = "the fitness uses more of its member than outputs (a hook, a mode, a derivative): a shared pass gives another value"
log = logging.getLogger(__name__)


@contextmanager
def agreed(world: World) -> Iterator[None]:
    """Raise on every rank what one rank's fitness raises: the error itself on a single rank, else a UserError with its name."""
    with collectively(world):
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            if world.size == 1:
                raise
            raise UserError(f"fitness: {type(error).__name__}: {' '.join(str(error).split())}") from error


def refuse_unlike(task: FitnessTask, world: World) -> None:
    """Raise UserError on every rank if the ranks' scorers were given different examples. Every rank calls this."""
    if world.size == 1:
        return
    digests = world.all_gather(np.array([task.digest()], np.int64), [1] * world.size)
    unlike = np.flatnonzero(digests != digests[0])
    if len(unlike) and digests.all():
        raise UserError(
            f"fitness: ranks 0 and {unlike[0]} scored their members on different examples: a loader that shuffles needs "
            "generator=torch.Generator().manual_seed(...), the same on every rank"
        )


class FitnessScorer(PopulationScorer):
    """Scores by the present fitness of a :class:`FitnessTask`; an error on one rank is raised on all."""

    def __init__(self, settings: ScoringSettings, centre: Tensor, world: World, shared_pass: bool) -> None:
        """Create the scorer. ``shared_pass``: try to answer the closures of many members by one forward pass."""
        super().__init__(settings)
        self._world = world
        self._shared_pass = shared_pass
        self._candidate: Candidate | None = None  # holds the centre's parameters, for closures that share a pass
        # one for each kind of fitness and length of the batch
        self._scorers: dict[tuple[str, int], PopulationScorer] = {}
        self._proven = set[tuple[Any, ...]]()  # codes of closures and lengths of batches whose shared passes were compared

    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        task = self.task
        assert isinstance(task, FitnessTask)
        scores = None
        make: Callable[[ScoringSettings, Tensor], PopulationScorer]
        if self._shared_pass and not task.hands_batch:
            scores = self._in_one_pass(task, proposal, generation, members)
        if scores is None:
            with agreed(self._world):
                form, make = ("batch", scorer_of) if task.hands_batch else ("closure", MemberScorer)
                if task.hands_batch and task.autocasts:
                    form, make = "batch under autocast", scorer_under_autocast
                scorer = self._scorer(form, task.batch_size, make, proposal)
                scores = scorer.scores(proposal, generation, members, part)
        refuse_unlike(task, self._world)
        return scores

    def _in_one_pass(self, task: FitnessTask, proposal: Proposal, generation: int, members: range) -> np.ndarray | None:
        """Return scores by closures that share a forward pass; None, from then on, once a rank cannot share one."""
        scores, reason = None, ""
        with agreed(self._world):
            try:
                task.capture(self._centre_module(proposal))
                make = partial(BatchedScorer, closures=task)
                scorer = self._scorer("shared pass", task.batch_size, make, proposal)
                scores = scorer.scores(proposal, generation, members)
                self._prove(task, proposal, generation, members[:2], scores[:2])
            except Exception as error:  # whatever it is: single members then raise what the fitness itself raises
                reason = brief(error)
        if not self._world.any(bool(reason)):
            return scores
        log.warning("members are scored one by one, slower: %s", reason or "another rank's cannot share a forward pass")
        self._shared_pass = False
        task.release()
        return None

    def _prove(self, task: FitnessTask, proposal: Proposal, generation: int, members: range, scores: np.ndarray) -> None:
        """Compare ``scores`` of a shared pass with the closure's own calls of ``members``, once for each closure and length.

        Only the closure knows what else it makes of its member: a hook, another mode, a derivative. Raises Unsupported.
        """
        key = task.code, task.batch_size
        if key in self._proven:
            return
        shared, alone = self.means(scores), np.empty((len(members), 1))
        candidate = self.settings.candidate()
        InputCopies(None, candidate.module)  # the module must not write to the script's data
        with task.apart(), unfused(), generators_kept():
            for row in range(len(members)):
                write_members(self.settings.sampler, proposal, generation, members[row : row + 1], candidate.flat[None])
                with kept(candidate.module):
                    alone[row] = task.score(candidate.ready(), task.batch(0, 0, 1))
        # the bound exceeds float32's rounding of a mean, and is below the differences between members
        most = tolerance(self.settings.precision) / 10 * np.abs(alone).max(initial=0.0)
        if not np.allclose(shared, alone, rtol=0.0, atol=most, equal_nan=True):
            raise Unsupported(OTHERWISE)
        self._proven.add(key)

    def _centre_module(self, proposal: Proposal) -> nn.Module:
        self._candidate = self._candidate or self.settings.candidate()
        self._candidate.flat.copy_(proposal.bases[0])
        return self._candidate.ready()

    def _scorer(
        self, form: str, length: int, make: Callable[[ScoringSettings, Tensor], PopulationScorer], proposal: Proposal
    ) -> PopulationScorer:
        """Return the scorer for a kind of fitness and a length of the batch."""
        key = (form, 1 if form == "closure" else length)
        if key not in self._scorers:
            self._scorers[key] = make(replace(self.settings, batch_size=length), proposal.bases[0])
            if has_pages(self.module):  # trials made large frozen parameters in float64, whose memory the C library keeps
                give_back_memory()
        self.settings = self._scorers[key].settings
        return self._scorers[key]
