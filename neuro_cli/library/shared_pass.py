"""One forward pass that answers the closures of many members, each with its own rows of the output.

Only the closure knows which batch it gives the module. The first call stops there and records the batch. Then the module
answers for all members at once. Last, the closure runs for each member, and the module returns that member's rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro_cli.scoring.passes.forward import answered_by
from neuro_cli.scoring.passes.operators import Unsupported
from neuro_cli.scoring.passes.outputs import by_tensor

OWN_INPUTS = "the members are given inputs of their own"


class _Reached(BaseException):  # not an Exception: the user's code must not catch it
    """The closure has called the module."""


class Call(NamedTuple):
    """Call of a member by a closure: one batch ``inputs`` (B, ..), given by the argument's ``name`` or by position."""

    inputs: Tensor
    name: str | None

    def outputs(self, module: nn.Module, inputs: Tensor) -> Any:
        """Return what ``module`` gives in a shared pass for other inputs."""
        return module(inputs) if self.name is None else module(**{self.name: inputs})


def captured(fitness: Callable[[nn.Module], Any], module: nn.Module) -> Call:
    """Return the first call of ``module`` in ``fitness``. Raises Unsupported for anything but one batch, or what it raises."""
    given: list[Call] = []

    def stop(*inputs: Any, **named: Any) -> None:
        call = _call(inputs, named)
        if call is not None and call.inputs.dim() > 1 and len(call.inputs):
            given.append(call)
        raise _Reached

    with answered_by(module, stop), torch.no_grad(), suppress(_Reached):
        fitness(module)
    if not given:
        raise Unsupported("the fitness does not call its member with one batch of examples")
    return given[0]


def _call(inputs: tuple[Any, ...], named: dict[str, Any]) -> Call | None:
    values = [*inputs, *named.values()]
    return Call(values[0], next(iter(named), None)) if len(values) == 1 and isinstance(values[0], Tensor) else None


def own_rows(outputs: Any, start: int, stop: int) -> Any:
    """Return rows [start, stop) of a shared pass's outputs, those of one member, copied so that no member changes another's."""
    with torch._C.DisableTorchFunction():
        return by_tensor(outputs, lambda x: x[start:stop].clone())


@contextmanager
def answering(module: nn.Module, call: Call) -> Iterator[Callable[[Any], None]]:
    """Let ``module`` answer ``call`` inside the context by the outputs last given, and raise Unsupported for any other call.

    Raises it again in the end, as the code inside may catch it. Yields the function that takes the outputs.
    """
    outputs: Any = None
    refused = False

    def give(next_outputs: Any) -> None:
        nonlocal outputs
        outputs = next_outputs

    def answer(*given: Any, **named: Any) -> Any:
        nonlocal refused
        other = _call(given, named)
        if other is None or other.name != call.name or not _same(other.inputs, call.inputs):
            refused = True
            raise Unsupported(OWN_INPUTS)
        return outputs

    with answered_by(module, answer):
        yield give
    if refused:
        raise Unsupported(OWN_INPUTS)


def _same(inputs: Tensor, first: Tensor) -> bool:
    return inputs is first or (inputs.shape == first.shape and torch.equal(inputs, first.to(inputs.dtype)))
