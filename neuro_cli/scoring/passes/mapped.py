"""One forward pass of an unmodified module for many members, which the module does not see: it is mapped over them.

``torch.vmap`` hides the members' dimension, so whatever the module does with its examples it does for each member alone. A
torch function mode meets the uses of evolved parameters:

- products with a weight, or with a piece of it (linear layers, convolutions, ``x @ weight.T``, ``einsum``, attention's
  projections), are done for all members at once, with the sampler's noise (:class:`neuro_cli.sampler.base.Perturbation`);
- embeddings take the noise of the rows that they look up;
- functions of torch that consist of such products (attention, LSTM, GRU) are taken apart;
- in any other use, a parameter of up to EXPANDED values is replaced by its members' values for that call.

Legend: S sides, D directions, B = S D members, e examples, n = B e rows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.passes.example_marks import with_mark
from neuro_cli.scoring.passes.forward import ManyForward
from neuro_cli.scoring.passes.handlers import HANDLERS
from neuro_cli.scoring.passes.member_dimension import HiddenMembers, quiet
from neuro_cli.scoring.passes.number_reads import any_of_rows, follow, goes_over_rows, name_of, reads
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.outputs import by_tensor, demand_rows, flat, rows_of
from neuro_cli.scoring.passes.parameter_uses import Use, Uses
from neuro_cli.scoring.passes.torch_bodies import body, overwrites


class MappedForward(ManyForward):
    """Context in which ``module`` answers n rows of input as the members of ``perturbation`` would.

    Input of n / S rows is what all sides have in common. ``numbers``: an output that is one number for each member is taken.
    """

    def __init__(
        self,
        module: nn.Module,
        layout: ParameterLayout,
        perturbation: Perturbation,
        careful: bool = True,
        numbers: bool = False,
    ) -> None:
        super().__init__(module, layout, perturbation, careful)
        self._uses, self._numbers = Uses(module, layout), numbers
        self._members = HiddenMembers(self._uses, perturbation)
        self._later = self._members.later

    @property
    def largest(self) -> int:
        """Values of one row in the largest tensor that was met."""
        return self._members.largest

    @property
    def convolved(self) -> bool:
        """Occurrence of a convolution in the pass."""
        return self._members.convolved

    @property
    def products(self) -> int:
        """Products of a number and a weight for one row."""
        return self._members.products // self._rows.examples

    def _answered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return rows of all members, for rows of all of them or of one side. Raises Unsupported for others."""
        given, form = tree_flatten((args, kwargs))
        length = rows_of(given)
        if not length or length not in (self._rows.count, self._one_side):
            raise Unsupported(f"the module gets {length} rows for {self._rows.count} examples")
        own = [place for place, value in enumerate(given) if isinstance(value, Tensor) and value.dim() and len(value) == length]
        parts: list[Any] = []  # outputs that are no tensors; a placeholder for each tensor
        rebuilt: Callable[[Sequence[Any]], Any]

        def member(*inputs: Tensor) -> list[Tensor]:
            nonlocal parts, rebuilt
            self._members.begin()
            for place, x in zip(own, inputs, strict=True):
                given[place] = x
            args, kwargs = tree_unflatten(given, form)
            result = by_tensor(self._called(args, kwargs), self._checked)
            parts, rebuilt = flat(result)
            return [part for part in parts if isinstance(part, Tensor)]

        # random draws of a module are the same for all members, as with one seed
        mapped = torch.func.vmap(member, randomness="same")
        with torch._C.DisableTorchFunction():  # rows of all members are not one member's values
            rows = [self._by_member(given[place]) for place in own]
        with quiet():
            result = iter(mapped(*rows))
        outputs = [next(result) if isinstance(part, Tensor) else part for part in parts]
        with torch._C.DisableTorchFunction():
            # marked, since a fitness may look at the rows of several members as those of one
            return rebuilt([with_mark(x.flatten(0, 1) if isinstance(x, Tensor) and x.dim() > 1 else x) for x in outputs])

    def _by_member(self, x: Tensor) -> Tensor:
        return self._both_sides(x).unflatten(0, (self._members.count, self._rows.examples))

    def _checked(self, output: Tensor) -> Tensor:
        return output if self._numbers and not output.dim() else demand_rows(self._members.everyone(output), self._rows.examples)

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._later.waits:
            result = self._later.after(func, args, kwargs)
            if result is not NotImplemented:
                return result
        if not self._inside:
            return self._outside(func, args, kwargs)
        handler = HANDLERS.get(func)
        result = handler(self._members, *args, **kwargs) if handler is not None else NotImplemented
        if result is NotImplemented:
            uses = list(self._uses.among([*args, *kwargs.values()]))
            result = self._other(func, args, kwargs, uses) if uses else func(*args, **kwargs)
        if isinstance(result, Tensor):
            self._members.met(result.numel())
        return result

    def _outside(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        given = [*args, *kwargs.values()]
        rows = any_of_rows(given)
        if rows and reads(func, args, kwargs):
            raise Unsupported(f"{name_of(func)} reads values of all members together")
        if rows and goes_over_rows(func, args, kwargs, self._one_side):
            raise Unsupported(f"{name_of(func)} goes over the rows of all members")
        result = func(*args, **kwargs)
        if rows:
            follow(func, result, given, self._one_side)
        use = next(self._uses.among(given), None)
        if use is not None and _tensors([result]):
            raise Unsupported(f"{name_of(func)} uses parameter {use.place.name} outside of the module's own forward pass")
        return result

    def _other(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], uses: list[Use]) -> Any:
        """Run a function of parameters without a handler: as a view of them, by its body, or on their members' values."""
        name = name_of(func)
        if reads(func, args, kwargs):
            raise Unsupported(f"{name} reads parameter {uses[0].place.name}")
        if overwrites(func) and args and self._uses.get(args[0]) is not None:
            raise Unsupported(f"{name} changes parameter {uses[0].place.name}")
        if _tensors([*args, *kwargs.values()]) == len(uses):
            result = func(*args, **kwargs)
            if not _tensors([result]) or self._uses.follow(result, uses):
                return result
        inner = body(func)
        if inner is not None:
            TorchFunctionMode.__enter__(self)
            try:
                return inner(*args, **kwargs)
            finally:
                TorchFunctionMode.__exit__(self, None, None, None)
        return func(*[self._value(value, name) for value in args], **{k: self._value(v, name) for k, v in kwargs.items()})

    def _value(self, value: Any, user: str) -> Any:
        if type(value) in (list, tuple):
            return type(value)(self._value(part, user) for part in value)
        return self._members.value(value, user)


def _tensors(values: Iterable[Any]) -> int:
    return sum(_tensors(value) if isinstance(value, list | tuple) else isinstance(value, Tensor) for value in values)
