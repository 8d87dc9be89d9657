"""Scoring by the fitness functions of the user's own loop."""

from dataclasses import replace

import numpy as np
from torch import Tensor

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import UserError
from neuro_cli.fabric.base import World
from neuro_cli.library.fitness import FitnessTask
from neuro_cli.runner.consensus import collectively
from neuro_cli.scoring.base import Scorer, ScoringSettings
from neuro_cli.scoring.choice import scorer_of
from neuro_cli.scoring.members import MemberScorer


class FitnessScorer(Scorer):
    """Scores by the present fitness of a :class:`FitnessTask`; an error on one rank is raised on all."""

    def __init__(self, settings: ScoringSettings, centre: Tensor, world: World) -> None:
        super().__init__(settings)
        self._centre, self._world = centre.clone(), world
        self._scorers: dict[int, Scorer] = {}  # by the length of the batch, 0 for closures

    @property
    def examples(self) -> int:
        return self.settings.examples

    def scores(self, proposal: Proposal, generation: int, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
        if self._world.size == 1:
            return self._scorer().scores(proposal, generation, members, part)
        with collectively(self._world):
            try:
                scores = self._scorer().scores(proposal, generation, members, part)
            except UserError:
                raise
            except Exception as error:
                raise UserError(f"fitness: {type(error).__name__}: {' '.join(str(error).split())}") from error
        self._refuse_unlike()
        return scores

    def _scorer(self) -> Scorer:
        """The scorer for the present form of fitness and length of the batch."""
        task = self.task
        assert isinstance(task, FitnessTask)
        length = task.batch_size if task.takes_batch else 0
        if length not in self._scorers:
            self.settings = replace(self.settings, batch_size=task.batch_size)
            make = scorer_of if task.takes_batch else MemberScorer
            self._scorers[length] = make(self.settings, self._centre)
        scorer = self._scorers[length]
        self.settings = scorer.settings
        return scorer

    def _refuse_unlike(self) -> None:
        """Raise UserError on every rank where the ranks scored their members on unlike examples."""
        task = self.task
        assert isinstance(task, FitnessTask)
        world = self._world
        digests = world.all_gather(np.array([task.digest()], np.int64), [1] * world.size)
        unlike = np.flatnonzero(digests != digests[0])
        if len(unlike) and digests.all():
            raise UserError(
                f"fitness: ranks 0 and {unlike[0]} scored their members on different examples: a loader that shuffles needs "
                "generator=torch.Generator().manual_seed(...), the same on every rank"
            )
