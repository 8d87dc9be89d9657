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
from torch.utils._pytree import tree_map

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.sampler.base import Perturbation
from neuro_cli.scoring.bodies import body, overwrites
from neuro_cli.scoring.handlers import HANDLERS
from neuro_cli.scoring.hidden import HiddenMembers, quiet
from neuro_cli.scoring.operators import Unsupported
from neuro_cli.scoring.uses import Use, Uses

READERS = frozenset(
    (
        Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__index__,
        Tensor.__array__, Tensor.is_nonzero, torch.is_nonzero, torch.equal, Tensor.equal, torch.allclose, Tensor.allclose,
    )
)  # fmt: skip


class MappedForward(TorchFunctionMode):
    """Context in which ``module`` answers n rows of input as the members of ``perturbation`` would.

    Input of n / S rows is what all sides have in common.
    """

    def __init__(self, module: nn.Module, layout: ParameterLayout, perturbation: Perturbation) -> None:
        super().__init__()
        self._uses = Uses(module, layout)
        self._members = HiddenMembers(self._uses, perturbation)
        self._rows = perturbation.rows
        self._module, self._own = module, module.__dict__.get("forward")
        self._forward: Callable[..., Any] = module.forward
        self._inside = False  # the map

    @property
    def largest(self) -> int:
        """Values of one row in the largest tensor that was met."""
        return self._members.largest

    @property
    def products(self) -> int:
        """Products of a number and a weight for one row."""
        return self._members.products // self._rows.examples

    def __enter__(self) -> "MappedForward":
        self._module.forward = self._answer
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._module.__dict__.pop("forward", None)
        if self._own is not None:
            self._module.forward = self._own

    def _answer(self, *args: Any, **kwargs: Any) -> Any:
        """Rows of all members, for rows of all of them or of one side. Raises Unsupported for others."""
        if self._inside:  # the module calls itself
            return self._forward(*args, **kwargs)
        given = [*args, *kwargs.values()]
        length = next((len(value) for value in given if isinstance(value, Tensor) and value.dim()), 0)
        if not length or length not in (self._rows.count, self._rows.count // len(self._rows.scales)):
            raise Unsupported(f"the module gets {length} rows for {self._rows.count} examples")
        own = [place for place, value in enumerate(given) if isinstance(value, Tensor) and value.dim() and len(value) == length]

        def member(*inputs: Tensor) -> Any:
            self._members.begin()
            for place, x in zip(own, inputs, strict=True):
                given[place] = x
            made = self._forward(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
            return tree_map(self._checked, made)

        self._inside = True
        try:
            # what a module draws by chance is the same for all members, as with one seed
            mapped = torch.func.vmap(member, randomness="same")
            with quiet():
                made = mapped(*[self._by_member(given[place]) for place in own])
        finally:
            self._inside = False
        return tree_map(lambda x: x.flatten(0, 1) if isinstance(x, Tensor) else x, made)

    def _by_member(self, x: Tensor) -> Tensor:
        times = self._rows.count // len(x)
        return (x if times == 1 else torch.cat([x] * times)).unflatten(0, (self._members.count, self._rows.examples))

    def _checked(self, output: Any) -> Any:
        if isinstance(output, Tensor) and (not output.dim() or len(output) != self._rows.examples):
            raise Unsupported(f"an output of shape {tuple(output.shape)} for {self._rows.examples} examples of a member")
        return output

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._inside:
            return self._outside(func, args, kwargs)
        handler = HANDLERS.get(func)
        made = handler(self._members, *args, **kwargs) if handler is not None else NotImplemented
        if made is NotImplemented:
            uses = list(self._uses.among([*args, *kwargs.values()]))
            made = self._other(func, args, kwargs, uses) if uses else func(*args, **kwargs)
        if isinstance(made, Tensor):
            self._members.met(made.numel())
        return made

    def _outside(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        made = func(*args, **kwargs)
        use = next(self._uses.among([*args, *kwargs.values()]), None)
        if use is not None and _tensors([made]):
            raise Unsupported(f"{name_of(func)} uses parameter {use.place.name} outside of the module's own forward pass")
        return made

    def _other(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], uses: list[Use]) -> Any:
        """A function of parameters that no handler serves: a view of them, its body, or their members' values in their place."""
        name = name_of(func)
        if func in READERS:
            raise Unsupported(f"{name} reads parameter {uses[0].place.name}")
        if overwrites(func) and args and self._uses.get(args[0]) is not None:
            raise Unsupported(f"{name} changes parameter {uses[0].place.name}")
        if _tensors([*args, *kwargs.values()]) == len(uses):
            made = func(*args, **kwargs)
            if not _tensors([made]) or self._uses.follow(made, uses):
                return made
        inner = body(func)
        if inner is not None:
            with self:
                return inner(*args, **kwargs)
        return func(*[self._value(value, name) for value in args], **{k: self._value(v, name) for k, v in kwargs.items()})

    def _value(self, value: Any, user: str) -> Any:
        if type(value) in (list, tuple):
            return type(value)(self._value(part, user) for part in value)
        return self._members.value(value, user)


def name_of(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", str(func))


def _tensors(values: Iterable[Any]) -> int:
    return sum(_tensors(value) if isinstance(value, list | tuple) else isinstance(value, Tensor) for value in values)
