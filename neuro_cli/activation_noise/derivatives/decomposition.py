"""Calls with parameters in terms of the operations that they consist of, through which derivatives of the rewards pass."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.activation_noise.derivatives.recurrence import CELLS, layers, scan
from neuro_cli.scoring.passes import recurrent
from neuro_cli.scoring.passes.torch_bodies import body

# sums of products: their parts pass derivatives on, where the call has no model of several arguments with data
SUMS: dict[str, Callable[..., Tensor]] = {
    "addcmul": lambda x, one, other, value=1: x + value * (one * other),
    "addcdiv": lambda x, one, other, value=1: x + value * (one / other),
    "lerp": lambda x, end, weight: x + weight * (end - x),
}
IN_STEPS = (
    {getattr(kind, name): run for name, run in SUMS.items() for kind in (torch, Tensor)}
    | {getattr(torch, f"{func.__name__}_cell"): partial(recurrent.one_step, F.linear, cell) for func, cell in CELLS.items()}
    | {func: partial(layers, cell) for func, cell in CELLS.items()}
)
# the same of products of matrices, which have a model of one argument with data
ADDED = {getattr(kind, name): run for name, run in (("addmm", torch.mm), ("baddbmm", torch.bmm)) for kind in (torch, Tensor)}


def decomposed(func: Callable[..., Any], args: Sequence[Any], of_data: Sequence[bool]) -> Callable[..., Any] | None:
    """Return ``func`` in terms of the operations that it consists of, None for an operation.

    ``of_data``: whether each tensor among the arguments depends on the examples.
    """
    if sum(of_data) > 1:
        if func in ADDED:
            return partial(_added, ADDED[func])
        if func is F.bilinear and all(of_data[:2]):
            return _bilinear
        if func is torch.einsum and isinstance(args[0], str):
            return partial(_einsum, of_data)
    return None if func is scan else IN_STEPS.get(func) or body(func)


def _added(
    product: Callable[[Tensor, Tensor], Tensor], x: Tensor, one: Tensor, other: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    result = product(one, other) if alpha == 1 else alpha * product(one, other)
    # x is not read where beta is 0, so that its NaN has no part
    return result if beta == 0 else result + (x if beta == 1 else beta * x)


def _bilinear(one: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = weight.transpose(1, 2).reshape(-1, weight.shape[1])
    result = (F.linear(one, rows).unflatten(-1, (-1, weight.shape[2])) * other.unsqueeze(-2)).sum(-1)
    return result if bias is None else result + bias


def _einsum(of_data: Sequence[bool], equation: str, *operands: Any) -> Tensor:
    """Multiply what depends on no example, then one operand after the other with that."""
    values = operands[0] if isinstance(operands[0], list | tuple) else operands
    given, arrow, output = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow:
        letters = sorted(set(given) - set(",."))
        output = "..." * ("..." in given) + "".join(letter for letter in letters if given.count(letter) == 1)
    left = [(term, value) for _, term, value in sorted(zip(of_data, terms, values, strict=True), key=lambda each: each[0])]
    term, value = left.pop(0)
    while left:
        other, second = left.pop(0)
        later = set(output).union(*(each for each, _ in left))
        both = dict.fromkeys((other + term).replace("...", ""))  # an operand of data first: its examples stay first
        made = "..." * ("..." in other + term) + "".join(letter for letter in both if letter in later) if left else output
        term, value = made, torch.einsum(f"{term},{other}->{made}", value, second)
    return value
