"""The clean pass: the centre's network on all examples of a generation, with every call of torch noted.

A torch function mode meets the calls. One that gets parameters and what comes of the examples is a layer: its outputs are cut
off from autograd's graph, so that the graph of a layer goes from its outputs to its own parameters and no further. What is made
of parameters alone (a transposed, masked or normalised weight) is part of the graph of the layers that use it; where it is
rounded (ternary weights), the derivative by the weight counts as that by the rounded one (straight-through, Bengio et al. 2013).

What is added to a layer's outputs or multiplied with them, number by number, joins the layer where nothing else gets the outputs:
``F.linear(x, weight) * gain + bias`` is one, since noise behind it says what each of the three parameters should do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from neuro_cli.core.layout import Place
from neuro_cli.scoring import recurrent
from neuro_cli.scoring.activation.found import Call, FoundLayer
from neuro_cli.scoring.activation.gate import note_use
from neuro_cli.scoring.activation.instead import TWICE
from neuro_cli.scoring.activation.link import Link, chained, link_of, step_of
from neuro_cli.scoring.activation.marks import DATA, LAYER, USE, marked, of_parameters, tensors, with_mark
from neuro_cli.scoring.bodies import body
from neuro_cli.scoring.operators import Unsupported

ROUNDED = frozenset((
    torch.sign, Tensor.sign, torch.round, Tensor.round, torch.floor, Tensor.floor, torch.ceil, Tensor.ceil, torch.trunc,
    Tensor.trunc,
))  # fmt: skip
# with what a layer's outputs are added to or multiplied with, number by number
LINEAR = frozenset((
    torch.add, Tensor.add, torch.sub, Tensor.sub, Tensor.__rsub__, torch.mul, Tensor.mul, torch.neg, Tensor.neg,
))  # fmt: skip
DIVIDED = frozenset((torch.div, Tensor.div, torch.true_divide, Tensor.true_divide))
WITHOUT_GRAPH: frozenset[Callable[..., Any]] = frozenset((Tensor.numpy, Tensor.__array__))  # refuse a tensor that has one
IN_STEPS = {
    getattr(torch, name + cell): partial(run, F.linear, getattr(recurrent, name))
    for name in ("gru", "lstm", "rnn_tanh", "rnn_relu")
    for cell, run in (("", recurrent.layers), ("_cell", recurrent.one_step))
}


def parts_of(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """``func`` in terms of the operations it consists of, None for an operation."""
    return IN_STEPS.get(func) or body(func)


class _Straight(torch.autograd.Function):
    """Rounded values, with the derivative of values that are not."""

    @staticmethod
    def forward(ctx: Any, exact: Tensor, rounded: Tensor) -> Tensor:
        return rounded.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


@dataclass
class CleanCalls:
    """The calls of a pass in order, the layers among them, and the ``links`` of the chain of changes, which ends in its ``root``.

    ``coupled``: what an example gives depends on the others (batch norm); ``smooth``: no step (``round``, a comparison) is in the
    chain. ``scores``: of rewards (B, T, C) in the chain, None where they are out of steps themselves.
    """

    calls: list[Call] = field(default_factory=list)
    steps: list[FoundLayer] = field(default_factory=list)
    layers: list[FoundLayer] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    root: Tensor | None = None
    coupled: bool = False
    smooth: bool = True
    scores: Tensor | None = None

    def join(self) -> None:
        """Set the layers: a step that alone gets the outputs of another one is one layer with it."""
        for step in self.steps:
            before = None if step.before is None else self.steps[step.before]
            if before is not None and len(before.users) == 1:
                before.joined, step.earlier = True, (*before.earlier, before)
                step.places, step.parameters = [*before.places, *step.places], [*before.parameters, *step.parameters]
        self.layers = [step for step in self.steps if step.places and not step.joined]
        for number, layer in enumerate(self.layers):
            self.calls[layer.call].layer = number

    def release(self) -> None:
        """Forget derivatives, which with their graphs hold the links that hold them."""
        for link in self.links:
            link.derivative = None

    @property
    def overwritten(self) -> str | None:
        """Name of the call with an outcome that a later one has overwritten, None if all are as they were."""
        for call in self.calls:
            if isinstance(call.made, Tensor) and call.made._version != call.version:
                return getattr(call.func, "__name__", str(call.func))
        return None


class CleanMode(TorchFunctionMode):
    """Context that notes the calls of a pass in ``noted``. ``places`` of the ``parameters`` that are evolved, by identity.

    ``keep``: copies of arguments and outputs that later calls may overwrite. ``linked``: with the chain of changes.
    """

    def __init__(self, parameters: dict[int, tuple[Tensor, Place]], keep: bool, linked: bool = False) -> None:
        super().__init__()
        self.noted = CleanCalls()
        self._parameters, self._keep, self._linked = parameters, keep, linked

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [*args, *kwargs.values()]
        if not any(True for _ in tensors(given)):
            made = func(*args, **kwargs)
            if any(True for _ in tensors([made])):  # else torch's settings, which are set again in every pass
                self.noted.calls.append(Call(func, made, made._version if isinstance(made, Tensor) else 0))
            return made
        of_data, of_weights = marked(given), any(of_parameters(tensor) for tensor in tensors(given))
        call = Call(func)
        self.noted.calls.append(call)
        if of_data and of_weights:
            inner = parts_of(func)
            if inner is not None:
                call.apart = True
                with self:
                    return inner(*args, **kwargs)
        use = note_use(self.noted.steps, func, args, kwargs)
        versions = {id(tensor): tensor._version for tensor in tensors(given) if hasattr(tensor, LAYER)}
        made = self._made(func, args, kwargs, of_data, of_weights)
        if isinstance(made, Tensor) and versions.get(id(made), made._version) != made._version:
            delattr(made, LAYER)  # what overwrites a step's outputs gives other ones
        call.made, call.version = made, made._version if isinstance(made, Tensor) else 0
        if not of_data:
            return made
        for tensor in tensors([made]):
            setattr(tensor, USE, use)
        return with_mark(made)

    def _made(
        self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], of_data: bool, of_weights: bool
    ) -> Any:
        if of_weights and not of_data:
            with torch.enable_grad():
                made = func(*args, **kwargs)
                rounded = func in ROUNDED and isinstance(made, Tensor)
                return _Straight.apply(args[0], made.detach()) if rounded else made
        data = _linear_in(func, args, kwargs)
        if data is None and not of_weights:
            return self._between(func, args, kwargs)
        found = [self._parameters[key] for key in _leaves([*args, *kwargs.values()]) if key in self._parameters]
        before = None if data is None else self._continued(args[data], found)
        if before is None and not of_weights:
            return self._between(func, args, kwargs)
        given, named = tree_map_only(Tensor, self._apart, (list(args), kwargs))
        if before is not None and data is not None:
            given[data] = self.noted.steps[before].raw
        with torch.enable_grad():
            made = func(*given, **named)
        if not any(tensor.requires_grad for tensor in tensors([made])):
            return made  # a shape, a comparison
        if not isinstance(made, Tensor):
            raise Unsupported(f"{func.__name__} with parameters gives several tensors")
        outputs = made.detach().clone() if self._keep else made.detach()
        if before is not None and made.shape != self.noted.steps[before].raw.shape:
            before = None
        if before is None and not of_weights:
            return self._between(func, args, kwargs)
        found = _ordered(found, args, kwargs)
        places, parameters = [place for _, place in found], [parameter for parameter, _ in found]
        step = FoundLayer(func, given, named, len(self.noted.calls) - 1, made, places, parameters, data, before)
        if self._linked:
            outputs = self._behind_link(step, args, kwargs, of_weights)
        setattr(outputs, LAYER, len(self.noted.steps))
        self.noted.steps.append(step)
        return outputs

    def _apart(self, tensor: Tensor) -> Tensor:
        """An argument of a layer without its graph, if it comes of the examples; a copy where later calls may overwrite it."""
        if not hasattr(tensor, DATA):
            return tensor
        apart = tensor.detach().clone() if self._keep else tensor.detach()
        setattr(apart, DATA, True)
        return apart

    def _between(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Outcome of a call without parameters, in the chain of changes if there is one."""
        if not self._linked:
            return func(*args, **kwargs)
        if func in WITHOUT_GRAPH:
            return func(*tree_map_only(Tensor, Tensor.detach, args), **kwargs)
        self._note_coupled(func, args, kwargs)
        with torch.set_grad_enabled(func not in ROUNDED):
            made = TWICE.get(func, func)(*args, **kwargs)
        step = step_of(func, args, kwargs, made, len(self.noted.links))
        if step is None:
            return made
        self.noted.smooth = False
        return self._chained(*step)

    def _behind_link(self, step: FoundLayer, args: Sequence[Any], kwargs: dict[str, Any], of_weights: bool) -> Tensor:
        """The outputs of a step in the chain of changes."""
        outputs = step.raw.detach()
        self._note_coupled(step.func, args, kwargs)
        if of_weights:
            step.link, x = link_of(step.func, args, kwargs, outputs, tuple(place.name for place in step.places))
        else:  # it continues a layer by numbers
            with torch.enable_grad():
                step.link, x = Link(outputs), step.func(*args, **kwargs)
        return self._chained(step.link, x)

    def _note_coupled(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if func in (torch.batch_norm, F.batch_norm):  # the sixth argument of both
            self.noted.coupled |= bool(kwargs.get("training", args[5] if len(args) > 5 else False))

    def _chained(self, link: Link, x: Tensor | None) -> Tensor:
        if self.noted.root is None:
            self.noted.root = torch.zeros((), device=link.outputs.device, requires_grad=True, dtype=torch.float32)
        self.noted.calls[-1].link = len(self.noted.links)
        self.noted.links.append(link)
        return chained(link, self.noted.root, x, self._keep)

    def _continued(self, outputs: Tensor, found: Sequence[tuple[Tensor, Place]]) -> int | None:
        """Number of the step with ``outputs`` that a call with parameters ``found`` can be one layer with, None for none."""
        number: int | None = getattr(outputs, LAYER, None)
        if number is None:
            return None
        # with a parameter of both the graph of this step alone would be that of the one before too
        shared = {place.name for place in self._places_up_to(number)}.intersection(place.name for _, place in found)
        return None if shared else number

    def _places_up_to(self, number: int | None) -> Iterator[Place]:
        """Places of a step and of those that it continues."""
        while number is not None:
            step = self.noted.steps[number]
            yield from step.places
            number = step.before


def _linear_in(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int | None:
    """Place of the one argument that comes of the examples, if a call only adds to it or multiplies it; else None."""
    if kwargs or (func not in LINEAR and func not in DIVIDED):
        return None
    data = [place for place, value in enumerate(args) if isinstance(value, Tensor) and hasattr(value, DATA)]
    return data[0] if len(data) == 1 and (func in LINEAR or data == [0]) else None


def _leaves(given: Iterable[Any]) -> list[int]:
    """Identities of the parameters in the graphs of tensors among ``given``, each once."""
    found: dict[int, None] = {}
    seen: set[Any] = set()
    for tensor in tensors(given):
        if hasattr(tensor, DATA):
            continue  # its graph is the chain of changes
        if tensor.is_leaf:
            if tensor.requires_grad:
                found[id(tensor)] = None
            continue
        todo = [tensor.grad_fn]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            variable = getattr(node, "variable", None)
            if variable is not None:
                found[id(variable)] = None
            todo += [following for following, _ in node.next_functions]
    return list(found)


def _ordered(found: list[tuple[Tensor, Place]], args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Tensor, Place]]:
    """Parameters in the order in which they are arguments; those that are none, last, as they lie in the flat vector."""
    positions = {id(tensor): place for place, tensor in reversed(list(enumerate(tensors([*args, *kwargs.values()]))))}
    return sorted(found, key=lambda entry: (positions.get(id(entry[0]), len(positions)), entry[1].start))
