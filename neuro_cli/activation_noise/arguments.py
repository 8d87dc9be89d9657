"""Arguments of torch's calls, by name, and with other tensors in their place."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from neuro_cli.core.rows import Geometry
from neuro_cli.scoring.passes.example_marks import SEQUENCES
from neuro_cli.scoring.passes.operators import Unsupported, geometry_of

DEFAULTS = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "eps": 1e-5, "training": False}
NAMES = {
    F.linear: "input weight bias",
    F.conv2d: "input weight bias stride padding dilation groups",
    torch.layer_norm: "input normalized_shape weight bias eps",
    torch.rms_norm: "input normalized_shape weight eps",
    torch.group_norm: "input num_groups weight bias eps",
    torch.batch_norm: "input weight bias running_mean running_var training momentum eps",
}


def replaced(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return ``value`` with each tensor t in it, also inside lists, replaced by ``change(t)``."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, SEQUENCES):
        parts = [replaced(part, change) for part in value]
        if all(one is other for one, other in zip(parts, value, strict=True)):
            return value
        if hasattr(value, "_make"):  # a named tuple, such as the quantised tensors of brevitas, which torch asks what a call does
            return value._make(parts)
        return parts if isinstance(value, list) else tuple(parts)
    return value


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
        return self._func not in (F.linear, F.conv2d)

    def normalised(self, x: Tensor) -> Tensor:
        """Return the norm of ``x`` (B, ..) without scale and shift."""
        if self._func is torch.layer_norm:
            return F.layer_norm(x, tuple(self["normalized_shape"]), eps=self["eps"])
        if self._func is torch.rms_norm:
            return F.rms_norm(x, tuple(self["normalized_shape"]), eps=self._given.get("eps"))
        if self._func is torch.group_norm:
            return F.group_norm(x, self["num_groups"], eps=self["eps"])
        mean, variance = (None, None) if self["training"] else (self["running_mean"], self["running_var"])
        return F.batch_norm(x, mean, variance, training=self["training"], eps=self["eps"])

    def affine_shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the shape of a norm's scale against an example of ``x`` (B, ..): one value a channel, or the last axes."""
        if self._func in (torch.layer_norm, torch.rms_norm):
            inner = tuple(self["normalized_shape"])
            return (*[1] * (x.dim() - 1 - len(inner)), *inner)
        return (x.shape[1], *[1] * (x.dim() - 2))
