"""Closures of many members answered by one forward pass: each finds its own rows of what the module gave for all of them.

Only the closure knows what it gives the module. So it is called up to there once, to learn that; then the module answers for all
members at once; then the closure is called for each member, and the module answers with that member's rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro_cli.scoring.forward import answered_by
from neuro_cli.scoring.operators import Unsupported
from neuro_cli.scoring.outputs import by_tensor


class _Reached(BaseException):  # no Exception: the user's code must not catch it
    """The closure has called the module."""


class Call(NamedTuple):
    """Call of a closure to its member: with one batch ``inputs`` (B, ..), by the ``name`` of an argument or without."""

    inputs: Tensor
    name: str | None

    def outputs(self, module: nn.Module, inputs: Tensor) -> Any:
        """What ``module`` gives for other inputs."""
        return module(inputs) if self.name is None else module(**{self.name: inputs})


def captured(fitness: Callable[[nn.Module], Any], module: nn.Module) -> Call:
    """How ``fitness`` first calls ``module``. Raises Unsupported where it is not with one batch, or what it raises."""
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


def rows(outputs: Any, start: int, stop: int) -> Any:
    """Rows [start, stop) of outputs, those of one member, in memory of their own: what is read there is read of no other's."""
    with torch._C.DisableTorchFunction():
        return by_tensor(outputs, lambda x: x[start:stop].clone())


@contextmanager
def answering(module: nn.Module, call: Call, outputs: Any) -> Iterator[None]:
    """Context in which ``module`` gives ``outputs`` for ``call``, and raises Unsupported for any other."""

    def answer(*given: Any, **named: Any) -> Any:
        other = _call(given, named)
        if other is None or other.name != call.name or other.inputs.shape != call.inputs.shape:
            raise Unsupported("the members are given inputs of their own")
        if not torch.equal(other.inputs, call.inputs.to(other.inputs.dtype)):
            raise Unsupported("the members are given inputs of their own")
        return outputs

    with answered_by(module, answer):
        yield
