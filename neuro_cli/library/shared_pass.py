"""Closures of many members answered by one forward pass: each finds its own rows of what the module gave for all of them.

Only the closure knows what it gives the module. So it is called up to there once, to learn that; then the module answers for all
members at once; then the closure is called for each member, and the module answers with that member's rows.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.scoring.operators import Unsupported


class _Reached(BaseException):  # no Exception: the user's code must not catch it
    """The closure has called the module."""


@contextmanager
def _forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Context in which ``module`` answers by another function; its hooks stay."""
    module.forward = forward
    try:
        yield
    finally:
        del module.forward


def captured(fitness: Callable[[nn.Module], Any], module: nn.Module) -> Tensor:
    """Input (B, ..) that ``fitness`` first gives ``module``. Raises Unsupported where that is no batch, or what it raises."""
    given: list[Tensor] = []

    def stop(*inputs: Any, **named: Any) -> None:
        if len(inputs) == 1 and not named and isinstance(inputs[0], Tensor) and inputs[0].dim() > 1 and len(inputs[0]):
            given.append(inputs[0])
        raise _Reached

    with _forward(module, stop), torch.no_grad(), suppress(_Reached):
        fitness(module)
    if not given:
        raise Unsupported("the fitness does not call its member with one batch of examples")
    return given[0]


@contextmanager
def answering(module: nn.Module, inputs: Tensor, outputs: Any) -> Iterator[None]:
    """Context in which ``module`` gives ``outputs`` for ``inputs``, and raises Unsupported for any others."""

    def answer(*given: Any, **named: Any) -> Any:
        (other,) = given if len(given) == 1 and not named else (None,)
        if not isinstance(other, Tensor) or other.shape != inputs.shape or not torch.equal(other, inputs.to(other.dtype)):
            raise Unsupported("the members are given inputs of their own")
        return outputs

    with _forward(module, answer):
        yield
