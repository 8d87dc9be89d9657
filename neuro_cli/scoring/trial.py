"""Choice of the forward pass that answers for many members: a trial compares its outputs with those of single members.

The trial is in float64 if the module allows it: rounding alone can separate two passes in float32 widely, for example by batch
norm over two values, and would hide a mistake. Compiled loops serve float32 alone, so the pass then runs in the run's precision,
and its rounding must be about as large as that of single members. A module with many frozen parameters is tried in the run's
precision, since a copy of them would cost too much memory; in a half precision also one with many trained ones. If that precision
is a half one, its first layers are tried in float32 before, with the task's scores, and the whole is tried by its outputs alone:
rounding flips a reward that counts right tokens. Each pass gets another copy of the module, as the first pass may fill caches.

Legend: S sides, D directions, e examples.
"""

import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro_cli.core.layout import ParameterLayout, Place
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.own_numbers import with_own_numbers
from neuro_cli.core.module.precision import convert_tables_late, in_precision
from neuro_cli.core.rows import MemberBatch, repeated
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.base import ScoringSettings
from neuro_cli.scoring.candidate import brief, scoring_mode
from neuro_cli.scoring.chunk_size import is_slower
from neuro_cli.scoring.passes.dense import DenseMember, Unwritten, Values, is_large
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.outputs import alike, joined, nearer, rounds_alike
from neuro_cli.scoring.passes.perturbed import PerturbedForward
from neuro_cli.scoring.passes.restore import kept
from neuro_cli.scoring.tolerance import SCALE, in_float64, tolerance
from neuro_cli.task.base import Batch

log = logging.getLogger(__name__)

TRIED = 4  # examples of a member
LAYERS = 2  # first ones of equal layers, which are tried alone
HEAVY = 2**25  # frozen numbers from which on a copy of them in another type costs too much memory
HALF_SCALE = 0.03  # size of the noise in half precision: at 0.1 the rounding of 30 layers grows as large as the noise's effect
ROUNDED = 0.5  # share of what noise changes in a member's outputs by which rounding may change them in half precision


@dataclass(frozen=True)
class Way:
    """A forward pass for many members. ``repeats_sides``: it is given the input of both sides, although they have the same."""

    forward: type[PerturbedForward] | type[MappedForward]
    repeats_sides: bool = False

    def __str__(self) -> str:
        return self.forward.__name__ + " on both sides" * self.repeats_sides


# fastest first
WAYS = (Way(PerturbedForward), Way(PerturbedForward, repeats_sides=True), Way(MappedForward))


class ChosenWay(NamedTuple):
    """Chosen way, values of a row in its largest activation, and whether single members are expected to be faster.

    ``products``: of a number and a weight, for a row.
    """

    way: Way
    largest: int
    products: int
    slower: bool


@dataclass(frozen=True)
class Members:
    """A few members of a module, which a trial compares.

    ``fresh``: a copy of the module; ``centre``: its evolved parameters (M,); ``single``: outputs of a module that is the member
    of a side and a direction; ``many``: outputs for all members, side after side, ``repeats_sides`` or not. Both receive the
    dtype of the module's inputs.
    """

    fresh: Callable[[], nn.Module]
    layout: ParameterLayout
    sampler: Sampler
    generation: int
    centre: Tensor
    rows: MemberBatch
    single: Callable[[nn.Module, torch.dtype, int, int], Any]
    many: Callable[[nn.Module, torch.dtype, bool], Any]
    numbers: bool = False  # an output that is one number for each member is taken
    scored: bool = False  # outputs are a list that ends with the task's scores


class Trial:
    """Trial of a pass against the outputs of single members, ``wanted``, in ``dtype``.

    ``rounded``: outputs may differ by a share of what the noise changes in them, in place of a share of the largest. ``run``: a
    precision in which the pass is tried too.
    """

    def __init__(self, members: Members, dtype: torch.dtype, rounded: bool = False, run: torch.dtype | None = None) -> None:
        self._members, self._dtype, self._run = members, dtype, run
        self._in_run: Trial | None = None  # made where a pass is right in dtype
        module = self._fresh()
        self._large = is_large(module, members.centre)
        self.wanted = self._all(module, members.rows.scales)
        self._still = self._all(module, [0.0] * len(members.rows.scales)) if rounded else None

    def _all(self, module: nn.Module, scales: Sequence[float]) -> Any:
        """Return what single members give at noise of these ``scales``, one for each side."""
        rows = self._members.rows
        each = [(side, scale, direction) for side, scale in enumerate(scales) for direction in range(rows.directions)]
        with torch.no_grad(), unfused():
            second = self._fresh() if self._dtype is torch.float64 and not self._large else module
            own = {0: module, 1: second}  # a cache outside of the module that the first fills is seen by a guard of another copy
            answers = [self._single(own.get(number, module), *one, guards=number in own) for number, one in enumerate(each)]
            return joined(answers, rows.examples)

    def _fresh(self) -> nn.Module:
        return in_precision(self._members.fresh(), self._dtype)

    def _single(self, module: nn.Module, side: int, scale: float, direction: int, guards: bool) -> Any:
        def answers() -> Any:
            return members.single(module, self._dtype, side, direction)

        members, exact = self._members, torch.float64 if self._dtype == torch.float64 else torch.float32
        if self._large:
            members.layout.attach(module, members.centre)
            with (
                Unwritten(members.centre),
                kept(module, statistics=True),
                DenseMember(module, members.layout, self._values(scale, direction)),
            ):
                return with_own_numbers(module, answers, members.numbers) if guards else answers()
        step = scale * members.sampler.explicit(members.generation, direction, exact)
        self._put(module, members.centre.to(exact) + step)
        with kept(module, statistics=True):
            return with_own_numbers(module, answers, members.numbers) if guards else answers()

    def _values(self, scale: float, direction: int) -> Values:
        """Return the values of a member, some of a parameter at a time, which :meth:`_single` computes at once."""
        members, exact = self._members, torch.float64 if self._dtype == torch.float64 else torch.float32

        def values(place: Place, first: int, last: int) -> Tensor:
            low, high = place.start + first, place.start + last
            noise = members.sampler.explicit_part(members.generation, direction, place.name, first, last, exact)
            return noise.mul_(scale).add_(members.centre[low:high]).to(self._dtype)

        return values

    def _put(self, module: nn.Module, flat: Tensor) -> None:
        self._members.layout.attach(module, flat.to(self._dtype))

    def first(self, ways: Sequence[Way], shared: bool = True) -> tuple[Way, PerturbedForward | MappedForward]:
        """Return the first way that serves, with its forward pass. ``shared``: the sides of a pair have the same inputs.

        Where none serves with layers that wait, no layer of the run waits, and all are tried again. Raises Unsupported where none
        serves, with the last reason.
        """
        sampler = self._members.sampler
        try:
            return self._first(ways, shared)
        except Unsupported as error:
            if sampler.at_once or not sampler.compiled:
                raise
            log.info("layers do not wait: %s", error)
            sampler.at_once = True
            return self._first(ways, shared)

    def _first(self, ways: Sequence[Way], shared: bool) -> tuple[Way, PerturbedForward | MappedForward]:
        reason = ""
        for way in ways:
            if way.repeats_sides and not (shared and len(self._members.rows.scales) > 1):
                continue  # nothing else than the way before
            try:
                return way, self.passed(way)
            except Exception as error:  # any kind: torch's or the module's own
                reason = brief(error)
                log.info("not by %s: %s", way, reason)
        raise Unsupported(reason)

    def passed(self, way: Way) -> PerturbedForward | MappedForward:
        """Return the forward pass after its trial. Raises Unsupported where the outputs differ, or what the module raises."""
        result = self.outputs(way)
        if not self._agrees(result):
            raise Unsupported("many members in one forward pass do not give what single members give")
        if self._run not in (None, self._dtype):
            assert self._run is not None
            self._in_run = self._in_run or Trial(self._members, self._run)
            trees = self._in_run.outputs(way), self._in_run.wanted, self.wanted
            # scores that count something are flipped by rounding
            made, single, exact = (tree[0] for tree in trees) if self._members.scored else trees
            if not rounds_alike(made, single, exact, self._run):
                raise Unsupported(f"many members in one forward pass do not give what single members give in {self._run}")
        return self._forward

    def _agrees(self, result: Any) -> bool:
        if self._still is None:
            return alike(result, self.wanted, tolerance(self._dtype))
        return nearer(result, self.wanted, self._still, ROUNDED)

    def outputs(self, way: Way) -> Any:
        """Return the module's outputs for all members in one pass."""
        members, module = self._members, self._fresh()
        perturbation = members.sampler.perturbation(members.generation, 0, members.rows, self._dtype)
        if self._large and way.forward is PerturbedForward:  # this pass converts parameters where it uses them
            members.layout.attach(module, members.centre)
        else:
            self._put(module, members.centre)
        options = {"numbers": members.numbers} if way.forward is MappedForward else {}
        guard = Unwritten(members.centre) if self._large else nullcontext()
        with torch.no_grad(), guard, way.forward(module, members.layout, perturbation, **options) as self._forward:
            self._forward.watch()
            return members.many(module, self._dtype, way.repeats_sides)


def trial_of(members: Members, dtype: torch.dtype) -> Trial:
    """Return a trial in float64, or in ``dtype``."""
    if tried_in_precision(members.fresh(), members.layout.size, dtype):
        rounded = dtype != torch.float32
        return Trial(quieter(members) if rounded else members, dtype, rounded)
    return in_float64(lambda exact: Trial(members, exact, run=dtype), dtype)


def quieter(members: Members) -> Members:
    """Return members with noise of HALF_SCALE."""
    rows = members.rows
    return replace(members, rows=MemberBatch([HALF_SCALE, -HALF_SCALE][: len(rows.scales)], rows.directions, rows.examples))


def is_heavy(module: nn.Module, trained: int = 0) -> bool:
    """Return whether the frozen parameters, and so many ``trained`` ones, are too many for a copy in another type."""
    return trained + sum(parameter.numel() for parameter in module.parameters() if not parameter.requires_grad) >= HEAVY


def tried_in_precision(module: nn.Module, trained: int, precision: torch.dtype) -> bool:
    """Return whether a network with so many ``trained`` numbers is tried in the run's precision; in float32 they may be many."""
    return is_heavy(module, 0 if precision == torch.float32 else trained)


def shortened(members: Members) -> Members:
    """Return members whose module has only the first LAYERS layers of each list of equal layers."""

    def fresh() -> nn.Module:
        module = members.fresh()
        for part in list(module.modules()):
            if isinstance(part, nn.ModuleList) and len({type(layer) for layer in part}) == 1:
                del part[LAYERS:]
        return module

    layout, left = copy.copy(members.layout), dict(fresh().named_parameters())
    layout.places = [place for place in layout.places if place.name in left]
    return replace(members, fresh=fresh, layout=layout)


def _by_first_layers(members: Members, ways: Sequence[Way]) -> Way:
    """Return the first way that serves the first layers in float32. Raises Unsupported where none does."""
    short, at_once = shortened(members), members.sampler.at_once
    late = replace(short, fresh=lambda: convert_tables_late(short.fresh(), torch.float32))
    try:
        return Trial(late, torch.float32).first(ways)[0]
    except Exception as error:  # a module may use a table outside of its layer
        log.info("tables are converted: %s", brief(error))
        members.sampler.at_once = at_once
        return Trial(short, torch.float32).first(ways)[0]


def chosen_way(
    settings: ScoringSettings,
    centre: Tensor,
    call: Callable[[nn.Module, Batch], Any] | None = None,
    after: Way | None = None,
    sides: int | None = None,
) -> ChosenWay:
    """Return the first way, or the first ``after`` one, whose outputs equal those of single members.

    ``call``: how the task calls it, if not by its scores. ``sides`` of a direction; None: the sampler's. Raises Unsupported where
    there is none.
    """
    members, ways = scored_members(settings, centre, call, sides), WAYS[WAYS.index(after) + 1 if after else 0 :]
    heavy = tried_in_precision(settings.module, settings.layout.size, settings.precision)
    try:
        if settings.precision != torch.float32 and heavy:
            ways = ways[ways.index(_by_first_layers(members, ways)) :][:1]
        way, forward = trial_of(members, settings.precision).first(ways)
    except Unsupported as error:
        raise Unsupported(f"{type(settings.module).__name__}: {error}") from None
    mapped = isinstance(forward, MappedForward)
    slower = is_slower(settings, forward.products, mapped, forward.convolved)
    return ChosenWay(way, forward.largest, forward.products, slower)


def prove(
    settings: ScoringSettings, way: Way, centre: Tensor, generation: int, call: Callable[[nn.Module, Batch], Any] | None = None
) -> None:
    """Try ``way`` on all examples of two directions of a generation, since a module may treat a few examples in another way.

    ``call``: as of :func:`chosen_way`. Raises Unsupported if the outputs differ from those of single members.
    """
    members = scored_members(settings, centre, call, generation=generation, most=settings.examples)
    try:
        trial_of(members, settings.precision).first([way])
    except Unsupported as error:
        raise Unsupported(f"{type(settings.module).__name__}: {error}") from None


def scored_members(
    settings: ScoringSettings,
    centre: Tensor,
    call: Callable[[nn.Module, Batch], Any] | None = None,
    sides: int | None = None,
    generation: int = 0,
    most: int = TRIED,
) -> Members:
    """Return members of two directions with at most ``most`` examples of a generation, of their own where they have such."""
    sampler, task = settings.sampler, settings.task
    examples, score = min(settings.examples, most), task.example_scores if call is None else call
    heavy = tried_in_precision(settings.module, settings.layout.size, settings.precision)
    directions = min(2, sampler.directions, sampler.noise_period or 2)
    rows = MemberBatch([SCALE, -SCALE][: sides or 1 + sampler.antithetic], directions, examples)

    def batch(dtype: torch.dtype, direction: int) -> Batch:
        start = direction * settings.examples if settings.per_example else 0
        return task.batch(generation, start, start + examples).to(dtype).clone()  # a module may write to it

    def given(module: nn.Module, batch: Batch, dtype: torch.dtype) -> Any:
        """Return outputs of the first call, and the task's scores unless the first layers have proven them in float32."""
        whole: list[Any] = []
        parts: list[Any] = []  # outputs of a module whose own method calls them, as in text generation
        handles = [module.register_forward_hook(lambda _, __, made: whole.append(made))]
        handles += [part.register_forward_hook(lambda _, __, made: parts.append(made)) for part in module.children()]
        try:
            scores = score(module, batch)
        finally:
            for handle in handles:
                handle.remove()
        outputs = (whole or parts)[:1]
        return outputs if outputs and heavy and dtype not in (torch.float32, torch.float64) else [*outputs, scores]

    def single(module: nn.Module, dtype: torch.dtype, _: int, direction: int) -> Any:
        return given(module, batch(dtype, direction), dtype)

    def many(module: nn.Module, dtype: torch.dtype, repeats_sides: bool) -> Any:
        batches, sides = [batch(dtype, direction) for direction in range(directions)], len(rows.scales)

        def joined_rows(parts: list[Tensor], times: int) -> Tensor:
            return repeated(torch.cat(parts), times) if settings.per_example else repeated(parts[0], times * directions)

        inputs = joined_rows([part.inputs for part in batches], sides if repeats_sides else 1)
        targets = joined_rows([part.targets for part in batches], sides)
        return given(module, Batch(*with_mark([inputs, targets])), dtype)

    return Members(
        lambda: scoring_mode(copied(settings.module)),
        settings.layout,
        sampler,
        generation,
        centre,
        rows,
        single,
        many,
        scored=True,
    )
