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
    """``alive``: 0 for each of the outputs that reach no later call, so that noise there has no sense, else 1.

    ``slope``: how much of a small change of each reaches them. ``window``: sides of the rectangles side by side of which one
    output at most is passed on, None for none.
    """

    def __init__(self, alive: Tensor, slope: Tensor, window: tuple[int, ...] | None = None) -> None:
        self.alive, self.slope, self._window = alive, slope, window

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what :meth:`passed_on` gives."""
        shape = tuple(self.slope.shape)
        if self._window is None:
            return shape
        return (*shape[:2], shape[2] // self._window[0], shape[3] // self._window[1])

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


def gate_of(layer: FoundLayer, slopes: bool) -> Gate | None:
    """Gate behind a layer; None where nothing is known of it. ``slopes``: also of smooth functions.

    A rectifier that alone gets the outputs passes on those above zero, a pool of the largest those, a smooth function of single
    numbers what its slope is; and so on while one call alone gets what the last one gives, up to a second pool.
    """
    x = outputs = layer.raw.detach()
    users = layer.users
    if len(users) > 1 and {use.func for use in users} <= RECTIFIERS:
        users = [replace(users[0], users=[])]
    alive = slope = torch.ones_like(outputs)
    before: tuple[Tensor, Tensor] | None = None  # of the outputs in front of a pool
    places, window, known = None, None, False
    while len(users) == 1 and users[0].first:
        [use] = users
        if use.func is F.max_pool2d and before is None and outputs.dim() == 4:
            x, places = F.max_pool2d(x, *use.args, **{**use.kwargs, "return_indices": True})
            before, window = (alive, slope), _window(use.args, use.kwargs)
            alive = slope = torch.ones_like(x)
        elif use.func in RECTIFIERS or (slopes and use.func in SMOOTH):
            made = slope_of(use.func, x, use.args, use.kwargs)
            alive, slope = alive * made if use.func in RECTIFIERS else alive, slope * made
            x = use.func(x.clone(), *use.args, **use.kwargs)
        else:
            break
        known, users = True, use.users
    if before is not None and places is not None:
        alive, slope = (_spread(part, places, outputs) * earlier for part, earlier in zip((alive, slope), before, strict=True))
    return Gate(alive, slope, window) if known else None


def _spread(part: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Numbers of a pool's outputs at the ``places`` that they come from, zeros elsewhere, in the form of ``like``."""
    whole = torch.zeros_like(like, memory_format=torch.contiguous_format).flatten(2)
    # where windows overlap, one of the outputs may be the largest of several: all have the same number
    return whole.scatter_(2, places.flatten(2), part.flatten(2)).view(like.shape)


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
