"""Arguments of torch's calls, by name, and with other tensors in their place."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.rows import Geometry
from neuro_cli.scoring.passes.example_marks import SEQUENCES, tensors
from neuro_cli.scoring.passes.operators import Unsupported, geometry_of

DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "eps": 1e-5, "training": False}
SIMPLE = (bool, int, float, complex, str, torch.dtype, torch.device)  # types of arguments that are compared by value
NAMES: dict[Any, str] = {
    F.linear: "input weight bias",
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), "input weight bias stride padding dilation groups"),
    **dict.fromkeys(
        (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
        "input weight bias stride padding output_padding groups dilation",
    ),
    torch.layer_norm: "input normalized_shape weight bias eps",
    torch.rms_norm: "input normalized_shape weight eps",
    torch.group_norm: "input num_groups weight bias eps",
    torch.batch_norm: "input weight bias running_mean running_var training momentum eps",
    torch.instance_norm: "input weight bias running_mean running_var use_input_stats momentum eps",
}
NORMS = frozenset((torch.layer_norm, torch.rms_norm, torch.group_norm, torch.batch_norm, torch.instance_norm))


def replaced(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return ``value`` with each tensor t in it, also inside lists, replaced by ``change(t)``."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, SEQUENCES) and tensors(value):
        parts = [replaced(part, change) for part in value]
        if all(one is other for one, other in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_make"):  # a named tuple, such as the quantised tensors of brevitas, which torch asks what a call does
            return value._make(parts)
        return parts if isinstance(value, list) else tuple(parts)
    return value


def own_lists(value: Any) -> Any:
    """Return ``value`` with copies of the lists in it, to which a program may append later (dense blocks)."""
    if isinstance(value, list):
        return [own_lists(part) for part in value]
    if type(value) is tuple and any(isinstance(part, SEQUENCES) for part in value):
        return tuple(own_lists(part) for part in value)
    return value


class FunctionOf:
    """A call as a function of its tensor ``x``, the others given. It holds no graph: that would hold the node, which holds it."""

    def __init__(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], x: Tensor) -> None:
        held = x.detach()
        self._func, self._positions, self._names, self._x = func, len(args), tuple(kwargs), held
        kind = x.device.type
        self._casts = (kind, torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else None
        self._given = [
            replaced(value, lambda tensor: held if tensor is x else tensor.detach()) for value in [*args, *kwargs.values()]
        ]

    def __call__(self, other: Tensor) -> Tensor:
        values = [replaced(value, lambda tensor: other if tensor is self._x else tensor) for value in self._given]
        named = dict(zip(self._names, values[self._positions :], strict=True))
        with nullcontext() if self._casts is None else torch.autocast(*self._casts):
            result: Tensor = self._func(*values[: self._positions], **named)
        return result

    def is_like(self, other: "FunctionOf") -> bool:
        """Return whether another call is the same function: all but its tensor ``x`` is equal."""
        if (self._func, self._names, self._casts) != (other._func, other._names, other._casts):
            return False
        return _alike(self._given, other._given, (self._x, other._x))


def _alike(one: Any, other: Any, inputs: tuple[Tensor, Tensor]) -> bool:
    """Return whether two arguments are equal, ``inputs`` counted as such; False where that cannot be seen."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if one is inputs[0] or other is inputs[1]:
            return one is inputs[0] and other is inputs[1]
        if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, torch.strided):
            return False
        return (one.data_ptr(), one.stride()) == (other.data_ptr(), other.stride()) or torch.equal(one, other)
    if isinstance(one, SEQUENCES):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(_alike(part, another, inputs) for part, another in zip(one, other, strict=True))
        )
    return one is other or (isinstance(one, SIMPLE) and type(one) is type(other) and bool(one == other))


class Arguments:
    """Arguments of a call of one of ``NAMES`` by name."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._func, self._given = func, dict(zip(NAMES[func].split(), args, strict=False)) | kwargs

    def __getitem__(self, name: str) -> Any:
        return self._given.get(name, DEFAULTS.get(name))

    @property
    def geometry(self) -> Geometry | None:
        """Geometry of a convolution; None for padding that torch does not unfold."""
        try:
            return geometry_of(self["weight"], self["stride"], self["padding"], self["dilation"], 1)
        except Unsupported:
            return None

    @property
    def is_norm(self) -> bool:
        """Return whether the call is a norm."""
        return self._func in NORMS

    def normalised(self, x: Tensor) -> Tensor:
        """Return the norm of ``x`` (B, ..) without scale and shift."""
        if self._func is torch.layer_norm:
            return F.layer_norm(x, tuple(self["normalized_shape"]), eps=self["eps"])
        if self._func is torch.rms_norm:
            return F.rms_norm(x, tuple(self["normalized_shape"]), eps=self._given.get("eps"))
        if self._func is torch.group_norm:
            return F.group_norm(x, self["num_groups"], eps=self["eps"])
        own = self["use_input_stats"] if self._func is torch.instance_norm else self["training"]
        mean, variance = (None, None) if own else (self["running_mean"], self["running_var"])
        if self._func is torch.instance_norm:
            return F.instance_norm(x, mean, variance, use_input_stats=own, eps=self["eps"])
        return F.batch_norm(x, mean, variance, training=self["training"], eps=self["eps"])

    def affine_shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of a norm's scale against an example of ``x`` (B, ..): one value a channel, or the last axes."""
        if self._func in (torch.layer_norm, torch.rms_norm):
            inner = tuple(self["normalized_shape"])
            return (*[1] * (x.dim() - 1 - len(inner)), *inner)
        return (x.shape[1], *[1] * (x.dim() - 2))
