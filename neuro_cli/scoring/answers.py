"""Outputs of many members for a call of their module: in one pass if a trial finds one that agrees, else one by one.

Legend: P members, S sides, D directions, e examples.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_map

from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout, writing
from neuro_cli.core.module.copies import copied
from neuro_cli.core.module.own_numbers import NotItsOwnError, with_own_numbers
from neuro_cli.core.rows import MemberBatch
from neuro_cli.core.seeds import Generators
from neuro_cli.sampler.base import Sampler
from neuro_cli.scoring.candidate import brief
from neuro_cli.scoring.passes.mapped import MappedForward
from neuro_cli.scoring.passes.member_dimension import unfused
from neuro_cli.scoring.passes.outputs import by_tensor, flat, joined, rows_of
from neuro_cli.scoring.passes.recurrent import PACKED
from neuro_cli.scoring.passes.restore import kept, without_dropout
from neuro_cli.scoring.tolerance import tolerance
from neuro_cli.scoring.trial import SCALE, TRIED, WAYS, Members, Way, trial_of

log = logging.getLogger(__name__)


class Given:
    """Inputs of a call: ``examples`` rows of each of P ``members`` in every tensor as long as the first, or for all of them.

    Raises UserError for a number of rows that does not fit.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], members: int, shared: bool) -> None:
        self.tree, self.members, self.shared = (args, kwargs), members, shared
        leaves: list[Any] = []
        if any(isinstance(value, PackedSequence) for value in (*args, *kwargs.values())):
            raise UserError(f"perturbed: {PACKED}")
        tree_map(leaves.append, self.tree)
        self._length = rows_of(leaves)
        if not self._length or (not shared and self._length % members):
            rows = f"{self._length} rows" if self._length else "no tensor with rows"
            raise UserError(f"perturbed: {rows} for {members} members; as many for each are needed (or shared=True)")
        self.examples = self._length if shared else self._length // members
        floats = [leaf.dtype for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        self.dtype = floats[0] if floats else None

    def of(self, member: int) -> Any:
        """Return inputs of one member."""
        if self.shared:
            return self.tree
        return self.by_rows(lambda x: x[member * self.examples : (member + 1) * self.examples])

    def few(self, members: int, examples: int) -> "Given":
        """Return a few examples of the first members."""

        def first(x: Tensor) -> Tensor:
            if self.shared:
                return x[:examples]
            return x.unflatten(0, (self.members, self.examples))[:members, :examples].flatten(0, 1)

        args, kwargs = self.by_rows(first)
        return Given(args, kwargs, members, self.shared)

    def of_all(self, sides: int, repeats_sides: bool) -> Any:
        """Return inputs of all members, side after side; of one side where the sides share theirs, unless that is repeated."""
        directions, examples = self.members // sides, self.examples
        if self.shared:
            times = directions * (sides if repeats_sides else 1)
            return self.by_rows(lambda x: x if times == 1 else torch.cat([x] * times))
        if sides == 1:
            return self.tree
        return self.by_rows(lambda x: x.unflatten(0, (directions, 2, examples)).transpose(0, 1).flatten(0, 2))

    def differ(self) -> bool:
        """Return whether two rows of some input differ."""
        found: list[bool] = []

        def look(x: Tensor) -> Tensor:
            found.append(bool((x != x[:1]).any()))
            return x

        self.by_rows(look)
        return any(found)

    def by_rows(self, function: Callable[[Tensor], Tensor]) -> Any:
        """Return the inputs with ``function`` of each tensor of rows."""

        def changed(value: Any) -> Any:
            return function(value) if isinstance(value, Tensor) and value.dim() and len(value) == self._length else value

        return tree_map(changed, self.tree)


@dataclass
class Serving:
    """Way of scoring that passed a trial, and later ones to try if it fails; ``reason``: why there is none.

    ``held``: copies compute with the module itself, so that they show nothing.
    """

    ways: list[Way]
    reason: str | None
    held: bool = False


class Answers:
    """Outputs of P members of ``module`` for given inputs, with the noise of a generation times ``sigma``."""

    def __init__(
        self, module: nn.Module, layout: ParameterLayout, sampler: Sampler, generation: int, sigma: float, given: Given
    ) -> None:
        self._module, self._layout, self._sampler = module, layout, sampler
        self._generation, self._sigma, self._given = generation, sigma, given
        self._sides = 2 if sampler.antithetic else 1

    def _rows(self, scale: float, given: Given) -> MemberBatch:
        return MemberBatch([scale, -scale][: self._sides], given.members // self._sides, given.examples)

    def tried(self) -> Serving:
        """Return the first way that gives a few members the outputs of single members, and the later ways."""
        with generators_kept():
            return self._next(list(WAYS))

    def _few(self) -> Members:
        """Return a few members of two directions."""
        few, sides = self._given.few(self._sides * min(2, self._sampler.directions), TRIED), self._sides

        def single(module: nn.Module, dtype: torch.dtype, side: int, direction: int) -> Any:
            args, kwargs = _in(dtype, few.of(direction * sides + side))
            return module.forward(*args, **kwargs)

        def many(module: nn.Module, dtype: torch.dtype, repeats_sides: bool) -> Any:
            args, kwargs = _in(dtype, few.of_all(sides, repeats_sides))
            return module.forward(*args, **kwargs)

        def fresh() -> nn.Module:
            return without_dropout(copied(self._module))

        centre = self._layout.flatten(self._module).double()
        rows = self._rows(SCALE, few)
        return Members(fresh, self._layout, self._sampler, self._generation, centre, rows, single, many, numbers=True)

    def _next(self, ways: list[Way]) -> Serving:
        """Return, of ``ways`` in their order, those from the first that passes a trial on."""
        try:
            trial = trial_of(self._few(), next(self._module.parameters()).dtype)
            way, _ = trial.first(ways, self._given.shared)
        except Exception as error:  # any kind: copying's, or the module's own
            return Serving([], brief(error), isinstance(error, NotItsOwnError))
        return Serving(ways[ways.index(way) :], None)

    def made(self, serving: Serving, say: Callable[[str | None], None]) -> Any:
        """Return outputs of all members. Raises UserError for outputs that are no rows, and whatever a single member raises.

        ``say`` receives the reason for single passes if only the pass shows it.
        """
        while serving.ways:
            way, *others = serving.ways
            before = Generators()
            try:
                return self._passed(way)
            except Exception as error:  # any kind: torch's, or the module's own
                before.restore()
                log.info("not by %s: %s", way, brief(error))
                with generators_kept():
                    after = self._next(others)
                serving.ways, serving.reason = after.ways, brief(error)
                if not serving.ways:
                    say(serving.reason)
        return self._one_by_one()

    def is_stale(self, made: Any, serving: Serving, before: Generators) -> bool:
        """Return whether a copy of the module gives something else than the module ``made``, which it repeats.

        A copy lacks what is kept elsewhere for the module: a function's cache, which is the centre's. ``before``: generators.
        """

        def again(module: nn.Module) -> Any:
            before.restore()
            answers = Answers(module, self._layout, self._sampler, self._generation, self._sigma, self._given)
            return answers.made(Serving(list(serving.ways), serving.reason), lambda _: None)

        if serving.held:
            return False
        with generators_kept():
            try:
                twin = copied(self._module, but=self._module.parameters())
                other = with_own_numbers(twin, partial(again, twin), always=True)
            except Exception:  # any kind: copying's, or the module's own
                return False
            return not _same(other, made) and _same(again(self._module), made)

    def _passed(self, way: Way) -> Any:
        """Return outputs of all members in one pass, member after member."""
        dtype = self._given.dtype or next(self._module.parameters()).dtype
        perturbation = self._sampler.perturbation(self._generation, 0, self._rows(self._sigma, self._given), dtype)
        args, kwargs = self._given.of_all(self._sides, way.repeats_sides)
        options = {"numbers": True} if way.forward is MappedForward else {}
        with way.forward(self._module, self._layout, perturbation, **options):
            outputs = self._module.forward(*args, **kwargs)
        return by_tensor(outputs, self._by_member) if self._sides == 2 else outputs

    def _by_member(self, x: Tensor) -> Tensor:
        return x.unflatten(0, (2, self._sampler.directions, -1)).transpose(0, 1).flatten(0, 2)

    def _one_by_one(self) -> Any:
        """Return outputs of all members by a pass for each."""
        parameters = dict(self._module.named_parameters())
        # written in place, since a script may hold views of them; an expanded one has no place for each number
        for parameter in (parameters[place.name] for place in self._layout.places if 0 in parameters[place.name].stride()):
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
        centre = [(place, parameters[place.name], parameters[place.name].data.clone()) for place in self._layout.places]
        exact = torch.float64 if any(data.dtype == torch.float64 for _, _, data in centre) else torch.float32
        outputs = []
        try:
            for member in range(self._given.members):
                direction, sign = self._sampler.side(member)
                step = sign * self._sigma * self._sampler.explicit(self._generation, direction, exact)
                with writing(parameters.values()):
                    for place, parameter, data in centre:
                        parameter.data.copy_(data.to(exact) + place.view(step))
                args, kwargs = self._given.of(member)
                with unfused(), kept(self._module, statistics=True):
                    outputs.append(self._module.forward(*args, **kwargs))
        finally:
            with writing(parameters.values()):
                for _, parameter, data in centre:
                    parameter.data.copy_(data)
        return joined(outputs, self._given.examples)


def _same(one: Any, other: Any) -> bool:
    """Return whether the floats of two trees agree up to rounding, a NaN with a NaN."""
    floats = ([leaf for leaf in flat(tree)[0] if isinstance(leaf, Tensor) and leaf.is_floating_point()] for tree in (one, other))
    return all(torch.allclose(a, b, tolerance(b.dtype), tolerance(b.dtype), True) for a, b in zip(*floats, strict=False))


def _in(dtype: torch.dtype, tree: Any) -> Any:
    """Return copies of inputs, which a module may write to, with floats in ``dtype``."""

    def own(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return x.to(dtype, copy=True) if x.is_floating_point() else x.clone()

    return tree_map(own, tree)


@contextmanager
def generators_kept() -> Iterator[None]:
    """Return a context that restores the random generators of torch, numpy and Python."""
    before = Generators()
    try:
        yield
    finally:
        before.restore()
