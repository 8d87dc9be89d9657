"""Candidates of a generation for ask and tell, each created when it is indexed."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from neuro_cli.algo.base import Proposal
from neuro_cli.core.errors import UserError
from neuro_cli.core.machine.threads import threads_kept
from neuro_cli.core.module.own_numbers import watched
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


def fitnesses_of(given: Sequence[float] | np.ndarray | Tensor, count: int) -> np.ndarray:
    """Return the fitnesses (``count``,) float64 of a rank's candidates, as passed to ``tell``. Raises UserError.

    A table or a set has no order of candidates, and a text, a date or a complex number is no fitness, though float() takes some.
    """
    if isinstance(given, str | bytes | Mapping | Set):
        raise UserError(
            f"tell: a {type(given).__name__} of fitnesses: a list, an array or a tensor in the candidates' order is needed"
        )
    try:
        if isinstance(given, Tensor):
            given = given.detach().cpu()
            values = (given if given.is_complex() else given.double()).numpy()
        elif hasattr(given, "__array__"):
            values = np.ma.asarray(given)  # a masked array keeps its masked places
        else:
            values = np.array([_number(value) for value in given], np.float64)
        if values.dtype.kind not in "biufO":
            raise TypeError(f"they are {values.dtype}")
        if values.dtype.kind == "O":
            values = np.reshape([_number(value) for value in values.flat], values.shape)
        scores = np.ma.filled(values.astype(np.float64), np.nan)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise UserError(f"tell: the fitnesses must be numbers: {' '.join(str(error).split())[:150]}") from error
    if scores.shape != (count,):
        shape = f"{len(scores)} fitnesses" if scores.ndim == 1 else f"fitnesses of shape {scores.shape}"
        raise UserError(f"tell: {shape} for {count} candidates of this rank")
    return scores


def _number(value: Any) -> float:
    """Return a fitness as float. Raises UserError, TypeError, ValueError or OverflowError for what is no number."""
    if value is None:
        raise UserError("tell: a fitness is None: does the function return its value?")
    if value is np.ma.masked:  # its number is 0
        return float("nan")
    if isinstance(value, Tensor | np.ndarray | np.generic):
        if not isinstance(value, Tensor) and value.dtype.kind not in "biufO":
            raise TypeError(f"a fitness is {value.dtype}")
        value = value.item()  # raises for several numbers
    if isinstance(value, str | bytes | complex):
        raise TypeError(f"a fitness is {value!r}")
    return float(value)


class Candidates(Sequence[nn.Module]):
    """Rank's share of a generation's members: ``candidates[i]`` is a module with the i-th member's parameters.

    ``members``: their indices in the population. ``watch``: passes of the first candidate raise UserError where they compute with
    the parameters of the user's own module. Raises UserError once a later generation has begun.
    """

    def __init__(
        self,
        population: Population,
        sampler: Sampler,
        proposal: Proposal,
        generation: int,
        members: range,
        present: Callable[[], int],
        watch: bool = False,
    ) -> None:
        self._population, self._sampler, self._proposal = population, sampler, proposal
        self._generation, self._present, self.members, self._watch = generation, present, members, watch

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
            return watched(module) if self._watch and member in self.members[:2] else module

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
