"""What of a layer's outputs reaches later calls: noise on the rest would only be noise in the estimate."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from neuro_cli.scoring.activation.found import FoundLayer, Use
from neuro_cli.scoring.activation.marks import LAYER, USE, tensors

# give nothing but zeros below zero
RECTIFIERS = frozenset((F.relu, F.relu_, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_))
# of every number by itself
SMOOTH = frozenset((
    F.gelu, F.silu, F.elu, F.leaky_relu, F.softplus, F.mish, F.hardswish, F.tanh, torch.tanh, Tensor.tanh, F.sigmoid,
    torch.sigmoid, Tensor.sigmoid,
))  # fmt: skip


def note_use(steps: list[FoundLayer], func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Use | None:
    """Note for the steps that ``func`` gets their outputs, or what a use made of them; that use, None for none or several."""
    noted = []
    for tensor in tensors([*args, *kwargs.values()]):
        number, before = getattr(tensor, LAYER, None), getattr(tensor, USE, None)
        if number is None and before is None:
            continue
        # without tensors: torch's graph of the chain of changes keeps this one's, which would keep torch's
        rest, named = tree_map_only(Tensor, lambda _: None, (args[1:], kwargs))
        noted.append(Use(func, bool(args) and args[0] is tensor, rest, named))
        if number is not None:
            steps[number].users.append(noted[-1])
        if before is not None:
            before.users.append(noted[-1])
    return noted[0] if len(noted) == 1 else None


def alive_of(layer: FoundLayer, smooth: bool) -> Tensor | None:
    """Set to 0 for each of a layer's outputs that reaches no later call, else 1; None where nothing is known of it.

    A rectifier that alone gets the outputs passes on those above zero, a pool of the largest those; and so on while one call
    alone gets what the last one gives, up to a second pool. ``smooth``: look behind smooth functions of single numbers too.
    """
    x = outputs = layer.raw.detach()
    users = layer.users
    if len(users) > 1 and {use.func for use in users} <= RECTIFIERS:
        users = [replace(users[0], users=[])]
    alive = torch.ones_like(outputs)
    before, places, known = alive, None, False  # those in front of a pool, and where it takes its outputs from
    while len(users) == 1 and users[0].first:
        [use] = users
        if use.func is F.max_pool2d and places is None and outputs.dim() == 4:
            x, places = F.max_pool2d(x, *use.args, **{**use.kwargs, "return_indices": True})
            before, alive = alive, torch.ones_like(x)
        elif use.func in RECTIFIERS:
            alive, x = alive * (x > 0).to(x.dtype), torch.relu(x)
        elif smooth and use.func in SMOOTH:
            x = use.func(x.clone(), *use.args, **use.kwargs)
        else:
            break
        known, users = True, use.users
    if places is not None:
        alive = _spread(alive, places, outputs) * before
    return alive if known else None


def _spread(part: Tensor, places: Tensor, like: Tensor) -> Tensor:
    """Numbers of a pool's outputs at the ``places`` that they come from, zeros elsewhere, in the form of ``like``."""
    whole = torch.zeros_like(like, memory_format=torch.contiguous_format).flatten(2)
    # where windows overlap, one of the outputs may be the largest of several: all have the same number
    return whole.scatter_(2, places.flatten(2), part.flatten(2)).view(like.shape)
