"""Candidates of a generation for ask and tell, each created when it is indexed."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.threads import threads_kept
from neuro_cli.fabric.base import World
from neuro_cli.runner.bind import Population
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.jobs import write_members


class Best(NamedTuple):
    """Best candidate of all generations: ``fitness`` as passed to ``tell``, and ``generation``.

    ``vector`` (M,): its parameters, of the type that ``ask`` gave: a tensor of Evolution, a numpy array of AskTell.
    """

    fitness: float
    vector: Any
    generation: int


def best_of_all(scores: np.ndarray, members: range, world: World) -> tuple[float, int]:
    """Return the highest score of all ranks and its member; ``scores`` (n,) of this rank's ``members``, NaN being the lowest."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    place = int(scores.argmax()) if len(scores) else 0
    highest, member = float(scores[place]) if len(scores) else -np.inf, members.start + place
    if world.size > 1:
        every = world.all_gather(np.array([highest, member]), [2] * world.size).reshape(-1, 2)
        highest, member = every[every[:, 0].argmax()]
    return float(highest), int(member)


def numbers_of(fitnesses: Sequence[float] | np.ndarray | Tensor, count: int) -> np.ndarray:
    """Return the fitnesses (``count``,) float64 of a rank's candidates, as passed to ``tell``. Raises UserError."""
    values = fitnesses.detach().cpu().numpy() if isinstance(fitnesses, Tensor) else fitnesses
    try:
        scores = np.array([float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise UserError(f"tell: a number for each candidate is needed ({error})") from error
    if scores.shape != (count,):
        raise UserError(f"tell: {len(scores)} fitnesses for {count} candidates of this rank")
    return scores


class Candidates(Sequence[nn.Module]):
    """Rank's share of a generation's members: ``candidates[i]`` is a module with the i-th member's parameters.

    ``members``: their indices in the population. Raises UserError once a later generation has begun.
    """

    def __init__(
        self,
        population: Population,
        sampler: Sampler,
        proposal: Proposal,
        generation: int,
        members: range,
        present: Callable[[], int],
    ) -> None:
        self._population, self._sampler, self._proposal = population, sampler, proposal
        self._generation, self._present, self.members = generation, present, members

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        self._refuse_late()
        with threads_kept():
            candidate = self._population.distribution.job.scorer.settings.candidate()
            member = self.members[index]
            write_members(self._sampler, self._proposal, self._generation, range(member, member + 1), candidate.flat[None])
            module = candidate.ready()
            for parameter in module.parameters():  # a scripted module has no requires_grad_
                parameter.requires_grad_(False)
            return module

    @property
    def vectors(self) -> Tensor:
        """Parameters (n, M) float32 of all candidates, in the order of ``module.parameters()``."""
        rows = torch.empty(len(self), self._population.layout.size, device=self._population.device, dtype=torch.float32)
        self._refuse_late()
        with threads_kept():
            write_members(self._sampler, self._proposal, self._generation, self.members, rows)
            return self._population.layout.in_order(rows)

    def _refuse_late(self) -> None:
        if self._generation != self._present():
            raise UserError("these candidates are of an earlier generation: ask() gives the next ones")
