"""ClipUp: gradient ascent by normalised gradients, with momentum, and a limit to the length of a step.

Toklu, Liskowski, Srivastava, "ClipUp: a simple and powerful optimizer for distribution-based policy evolution", PPSN 2020,
algorithm 1. The step size alone sets the length of a step; the gradient's length is arbitrary after fitness shaping.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class ClipUp(torch.optim.Optimizer):
    """Steps ``velocity = clip(momentum * velocity - lr * g / |g|, max_speed)``, ``params += velocity``; norms of all.

    ``lr`` >= 0: length of a step without momentum, in the units of the parameters. ``momentum`` in [0, 1). ``max_speed`` > 0:
    greatest length of a step, None: twice ``lr``, as the paper advises. A parameter group with another rate moves in proportion
    to its rate. Raises ValueError.
    """

    def __init__(self, params: Iterable[Tensor], lr: float = 0.15, momentum: float = 0.9, max_speed: float | None = None) -> None:
        if not lr >= 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0 <= momentum < 1:
            raise ValueError(f"Invalid momentum: {momentum}")
        if max_speed is not None and not max_speed > 0:
            raise ValueError(f"Invalid max_speed: {max_speed}")
        super().__init__(params, {"lr": lr, "momentum": momentum, "max_speed": max_speed})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Take one step of ClipUp for all parameter groups together."""
        assert closure is None, "no loss is asked for"
        groups = [group for group in self.param_groups if group["lr"] > 0]
        length = _norm([parameter.grad for group in groups for parameter in _moved(group)])
        for group in groups:
            for parameter in _moved(group):
                velocity = self._velocity(parameter).mul_(group["momentum"])
                if length > 0 and parameter.grad is not None:
                    velocity.add_(parameter.grad, alpha=-group["lr"] / length)
        velocities = [[self._velocity(parameter) for parameter in _moved(group)] for group in groups]
        limits = [2 * group["lr"] if group["max_speed"] is None else group["max_speed"] for group in groups]
        # lengths in units of the first group's limit, so that a group with half the rate moves half as far
        speed = math.sqrt(sum((limits[0] / limit) ** 2 * _square(some) for limit, some in zip(limits, velocities, strict=True)))
        for group, some in zip(groups, velocities, strict=True):
            for parameter, velocity in zip(_moved(group), some, strict=True):
                if speed > limits[0]:
                    velocity.mul_(limits[0] / speed)
                parameter.add_(velocity)

    def _velocity(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(parameter)
        velocity: Tensor = state["velocity"]
        return velocity


def _moved(group: dict[str, Any]) -> list[Tensor]:
    """Return the parameters of a group that have a gradient."""
    return [parameter for parameter in group["params"] if parameter.grad is not None]


def _square(tensors: Iterable[Tensor | None]) -> float:
    """Return the squared Euclidean norm of all tensors together, summed in float64."""
    return sum(float(tensor.double().square().sum()) for tensor in tensors if tensor is not None)


def _norm(tensors: Iterable[Tensor | None]) -> float:
    """Return the Euclidean norm of all tensors together, summed in float64."""
    return math.sqrt(_square(tensors))
