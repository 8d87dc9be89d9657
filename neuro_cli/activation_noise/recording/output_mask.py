"""Masks of a layer's outputs that reach later calls: noise on the others would only add variance to the estimate."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.activation_noise.recording.calls import LayerStep, Use
from neuro_cli.scoring.passes.example_marks import LAYER, USE

# zero for every value below zero
RECTIFIERS = frozenset((F.relu, F.relu_, torch.relu, Tensor.relu, torch.relu_, Tensor.relu_))
# smooth functions of single values
SMOOTH = frozenset((
    F.gelu, F.silu, F.elu, F.leaky_relu, F.softplus, F.mish, F.hardswish, F.tanh, torch.tanh, Tensor.tanh, F.sigmoid,
    torch.sigmoid, Tensor.sigmoid,
))  # fmt: skip


def record_use(
    steps: list[LayerStep], func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], given: Sequence[Tensor]
) -> Use | None:
    """Record a call with the tensors ``given`` as a user of the steps' outputs, or of uses' results, that it gets.

    Returns the use, None where it gets none or several of them.
    """
    uses = []
    for tensor in given:
        number, before = getattr(tensor, LAYER, None), getattr(tensor, USE, None)
        if number is None and before is None:
            continue
        # arguments without tensors: the backward graph refers to this record, and would keep autograd's graph alive
        settings = (args[1:], kwargs) if func is F.max_pool2d or func in SMOOTH else ((), {})
        uses.append(Use(func, bool(args) and args[0] is tensor, *settings))
        if number is not None:
            steps[number].users.append(uses[-1])
        if before is not None:
            before.users.append(uses[-1])
    return uses[0] if len(uses) == 1 else None


def output_mask(layer: LayerStep, smooth: bool) -> Tensor | None:
    """Return 0 for each of a layer's outputs that reaches no later call, else 1; None where every output may reach one.

    A rectifier passes on values above zero, a max pool the largest ones. Calls are followed as long as each is the only user of
    the one before, up to a second pool. ``smooth``: also through smooth functions of single values.
    """
    x = outputs = layer.raw.detach()
    users = layer.users
    if len(users) > 1 and {use.func for use in users} <= RECTIFIERS:
        users = [replace(users[0], users=[])]
    mask: Tensor | None = None
    before_pool, places = None, None
    while len(users) == 1 and users[0].first:
        [use] = users
        if use.func is F.max_pool2d and places is None and outputs.dim() == 4:
            x, places = F.max_pool2d(x, *use.args, **{**use.kwargs, "return_indices": True})
            before_pool, mask = mask, torch.ones_like(x)
        elif use.func in RECTIFIERS:
            above = (x > 0).to(x.dtype)
            mask = above if mask is None else mask * above
            x = torch.relu(x) if use.users else x
        elif smooth and use.func in SMOOTH:
            x = use.func(x.clone(), *use.args, **use.kwargs)
        else:
            break
        users = use.users
    if places is None or mask is None:
        return mask
    mask = _unpooled(mask, places, outputs)
    return mask if before_pool is None else mask * before_pool


def _unpooled(mask: Tensor, places: Tensor, outputs: Tensor) -> Tensor:
    """Return the mask of a pool's inputs, in the form of ``outputs``, from that of its results and their ``places``."""
    unpooled = torch.zeros_like(outputs, memory_format=torch.contiguous_format).flatten(2)
    # an output that is the largest of several overlapping windows gets the same number from each
    return unpooled.scatter_(2, places.flatten(2), mask.flatten(2)).view(outputs.shape)
