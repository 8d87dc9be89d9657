"""Step functions in the backward graph (rounding, signs, comparisons, spikes), by the slope of their mean under noise.

The derivative of a step is zero, that of its mean is not: the mean of f(x + s e) over normal noise e has the slope
E[e f(x + s e)] / s. It is computed from values of f around x. So nothing is learnt, no weight is used, and the slope depends on
the distance from a step. A chain of such functions (a comparison and a change of type, a rounding and a sign) is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuro_cli.activation_noise.derivatives.arguments import FunctionOf
from neuro_cli.activation_noise.derivatives.mean_square import root_mean_square
from neuro_cli.activation_noise.derivatives.outside_torch import NEW
from neuro_cli.scoring.passes.example_marks import tensors
from neuro_cli.scoring.passes.torch_bodies import overwrites

Respond = Callable[[Tensor], Tensor]  # outputs of a call for another input

ROUNDED = frozenset((
    torch.sign, Tensor.sign, torch.round, Tensor.round, torch.floor, Tensor.floor, torch.ceil, Tensor.ceil, torch.trunc,
    Tensor.trunc,
))  # fmt: skip
STEP = "_neuro_step"  # attribute of a step function's result: the function
WIDTH = 0.5  # size s of the noise, in units of the input's standard deviation
FLOOR = 1e-2  # least standard deviation that the size refers to
POINTS = (0.157, 0.489, 0.887, 1.534)  # medians of four equal shares of the sizes of normal noise: the integral's nodes
CONSTANT = ("new_", "isnan", "isinf", "isfinite", "isneginf", "isposinf")  # how names of such calls begin


class StraightThrough(torch.autograd.Function):
    """Rounded values with the derivative of the exact ones."""

    @staticmethod
    def forward(ctx: Any, exact: Tensor, rounded: Tensor) -> Tensor:
        return rounded.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


@dataclass(frozen=True)
class Step:
    """A function of single values whose derivative torch takes as zero. ``x``: its input, in the backward graph."""

    x: Tensor
    respond: Respond

    @torch.no_grad()
    def slope(self) -> Tensor:
        """Return the slope of the smoothed function at each value of ``x``. A linear function has its own."""
        x = self.x.detach()
        deviation = root_mean_square(x - x.mean())
        size = WIDTH * max(deviation, FLOOR)
        total = torch.zeros_like(x)
        for point in POINTS:
            total += point * (self.respond(x + size * point).to(x.dtype) - self.respond(x - size * point).to(x.dtype))
        return total / (2 * size * sum(point**2 for point in POINTS))


def step_of(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], result: Any) -> Step | None:
    """Return the step function that a call completes, None for a call that is none or that depends on several tensors."""
    if not isinstance(result, Tensor) or result.requires_grad or overwrites(func) or is_constant(func):
        return None
    sources = [tensor for tensor in tensors([*args, *kwargs.values()]) if tensor.requires_grad or hasattr(tensor, STEP)]
    if len(sources) != 1 or sources[0].shape != result.shape:
        return None
    [source] = sources
    inner: Step | None = getattr(source, STEP, None)
    outer = FunctionOf(func, args, kwargs, source)
    if inner is None:
        return Step(source, outer)
    return Step(inner.x, lambda x: outer(inner.respond(x)))


def is_constant(func: Callable[..., Any]) -> bool:
    """Return whether the result of a call is the same for all numbers of a form, or for all that are finite."""
    name = getattr(func, "__name__", "")
    return func in NEW or name.endswith("_like") or name.startswith(CONSTANT)
