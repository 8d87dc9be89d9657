"""What of a layer's outputs reaches later calls: noise on the rest would only be noise in the estimate."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.scoring.activation.dependence import RECTIFIERS, SMOOTH
from neuro_cli.scoring.activation.found import FoundLayer
from neuro_cli.scoring.activation.own_weights import root_mean_square
from neuro_cli.scoring.operators import numbers

STEP = 1e-2  # of the evaluations that tell a slope, in units of the numbers' root mean square


class Gate:
    """``slope``: how much of a small change of each of the outputs reaches later calls.

    ``hard``: 0 or 1, and noise has no sense where it is 0. ``window``: sides of the rectangles side by side of which one output
    at most is passed on, None for none.
    """

    def __init__(self, slope: Tensor, hard: bool, window: tuple[int, ...] | None = None) -> None:
        self.slope, self.hard, self._window = slope, hard, window

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what :meth:`passed_on` gives."""
        *others, height, width = self.slope.shape if self._window is not None else (*self.slope.shape, 1, 1)
        if self._window is None:
            return tuple(others)
        return (*others, height // self._window[0], width // self._window[1])

    def passed_on(self, change: Tensor) -> Tensor:
        """The change that later calls get of one of the outputs, in their form; with rectangles a number for each of them."""
        change = change * self.slope
        if self._window is None:
            return change
        return F.avg_pool2d(change, self._window, divisor_override=1)

    def taken_back(self, derivative: Tensor) -> Tensor:
        """Derivative by the outputs from that by what :meth:`passed_on` gives."""
        if self._window is None:
            return derivative * self.slope
        for axis, times in zip((-2, -1), self._window, strict=True):
            derivative = derivative.repeat_interleave(times, axis)
        missing = [whole - part for whole, part in zip(self.slope.shape[-2:], derivative.shape[-2:], strict=True)]
        return F.pad(derivative, (0, missing[1], 0, missing[0])) * self.slope


def gate_of(layer: FoundLayer) -> Gate | None:
    """Gate behind a layer; None where nothing is known of it.

    A rectifier that alone gets the outputs passes on those above zero, a pool of the largest those, a smooth function of single
    numbers what its slope is; and so on while one call alone gets what the last one gives, up to a second pool.
    """
    x = outputs = layer.raw.detach()
    users, window, places, hard = layer.users, None, None, True
    slope: Tensor | None = None
    if users and {use.func for use in users} <= RECTIFIERS:
        users = users if len(users) == 1 else [replace(users[0], users=[])]
    before = torch.ones_like(outputs)
    while len(users) == 1 and users[0].first:
        [use] = users
        if use.func is F.max_pool2d and places is None and outputs.dim() == 4:
            x, places = F.max_pool2d(x, *use.args, **{**use.kwargs, "return_indices": True})
            window, before, slope = _window(use.args, use.kwargs), before if slope is None else slope, torch.ones_like(x)
        elif use.func in RECTIFIERS or use.func in SMOOTH:
            made = slope_of(use.func, x, use.args, use.kwargs)
            slope, hard = made if slope is None else slope * made, hard and use.func in RECTIFIERS
            x = use.func(x.clone(), *use.args, **use.kwargs)
        else:
            break
        users = use.users
    if slope is None or places is None:
        return None if slope is None else Gate(slope, hard)
    whole = torch.zeros_like(outputs, memory_format=torch.contiguous_format).flatten(2)
    # where windows overlap, one of the outputs may be the largest of several
    whole.scatter_(2, places.flatten(2), slope.flatten(2))
    return Gate(whole.view(outputs.shape) * before, hard, window)


def slope_of(func: Callable[..., Tensor], x: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> Tensor:
    """Slope of a function of single numbers at each of ``x``; what overwrites them gets copies."""
    if func in RECTIFIERS:
        return (x > 0).to(x.dtype)
    step = STEP * max(root_mean_square(x), STEP)
    up, down = (func(x + way, *args, **kwargs) for way in (step, -step))
    return (up - down) / (2 * step)


def _window(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[int, ...] | None:
    """Sides of a pool's rectangles where they lie side by side without a gap, else None."""
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given = dict(zip(names, args, strict=False)) | kwargs
    sides = numbers(given["kernel_size"], 2)
    stride = given.get("stride") or sides
    plain = numbers(given.get("padding", 0), 2) == (0, 0) and not given.get("ceil_mode", False)
    return sides if plain and numbers(stride, 2) == sides and numbers(given.get("dilation", 1), 2) == (1, 1) else None
