"""Loss of torch split into losses of single examples, which ranks and chunks can share, and reduced again.

``reduction=mean`` of a cross-entropy with class weights or ignored targets is a weighted mean: the sum of the losses over the
sum of the targets' weights. Other means are over all numbers, and ``batchmean`` divides a sum by the number of examples. The
reduced value is compared with what the loss itself gives. Legend: B examples.
"""

import copy
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.dotted import located
from neuro_cli.task.images import shape_text

COMPARED, TOLERANCE = 64, 1e-4
OPTIONS = ("reduction", "weight", "ignore_index")
BY_CLASS = (nn.CrossEntropyLoss, nn.NLLLoss)
BY_CLASS_FUNCTIONS = (F.cross_entropy, F.nll_loss)
# outputs of NaN have a loss of 0 by these, the best one, as no margin of NaN is larger than 0
MARGINS = (nn.MultiMarginLoss, nn.MultiLabelMarginLoss)
MARGIN_FUNCTIONS = (F.multi_margin_loss, F.multilabel_margin_loss)


class LossParts:
    """Parts of ``loss``: one of torch.nn with a ``reduction``, a function of (output, targets), or a dotted name of one.

    It is copied, never changed. ``reduction``: the loss's own, none if it gives a number for each example. ``by_class``: it
    compares classes. Raises ConfigError for a loss that cannot be called or copied.
    """

    def __init__(self, loss: Any) -> None:
        loss = located("task.loss", loss)
        if not callable(loss):
            raise ConfigError("task.loss", _name(loss), "must be a loss of torch.nn or a function of (output, targets)")
        self.given = loss
        self._whole, self._each, options = _taken_apart(loss)
        self.reduction = options.get("reduction", "none")
        self.by_class = isinstance(loss, BY_CLASS) or getattr(loss, "func", loss) in BY_CLASS_FUNCTIONS
        self._margins = isinstance(loss, MARGINS) or getattr(loss, "func", loss) in MARGIN_FUNCTIONS
        self._ignored: int = options.get("ignore_index", 0)
        self._class_weights: Tensor | None = options.get("weight")

    def to(self, device: torch.device) -> None:
        """Move the copies of the loss to ``device``."""
        for part in (self._whole, self._each):
            if isinstance(part, nn.Module) and part is not self.given:
                part.to(device)

    def weighs(self, targets: Tensor) -> bool:
        """Return whether a mean over ``targets`` is a weighted one."""
        if not self.by_class or self.reduction != "mean" or targets.is_floating_point():
            return False
        return self._class_weights is not None or bool((targets == self._ignored).any())

    def weights(self, targets: Tensor) -> Tensor:
        """Return weights (B,) float64 of examples with classes ``targets`` (B, ..) in a weighted mean."""
        counted = targets.ne(self._ignored)
        if self._class_weights is None:
            weights = counted.double()
        else:
            weights = self._class_weights.double().to(targets.device)[torch.where(counted, targets, 0)] * counted
        return weights.flatten(1).sum(1) if weights.ndim > 1 else weights

    def losses(self, output: Any, targets: Tensor, summed: bool) -> Tensor:
        """Return each example's loss (B,): the mean over its other dimensions, or the sum if ``summed``. Raises ConfigError."""
        losses = self._each(output, targets)
        if not isinstance(losses, Tensor) or not losses.ndim or len(losses) != len(targets):
            shape = shape_text(tuple(losses.shape)) if isinstance(losses, Tensor) else type(losses).__name__
            text = f"gives {shape or 'one number'} for {len(targets)} examples; a number for each is needed (reduction=none), "
            text += "or as a metric of a whole batch: task.metrics=package.function task.fitness=function"
            raise ConfigError("task.loss", _name(self.given), text)
        losses = losses if losses.dtype == torch.float64 else losses.float()
        if losses.ndim == 1:
            return losses.masked_fill(output.isnan().any(1), torch.nan) if self._margins else losses
        return losses.flatten(1).sum(1) if summed or self.reduction in ("sum", "batchmean") else losses.flatten(1).mean(1)

    def together(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Return what the loss gives for examples with these numbers: a scalar; NaN, as in torch, if a mean counts nothing."""
        if self.reduction == "sum":
            return losses.sum()
        return losses.mean() if weights is None else losses.sum() / weights.sum()

    def compare(self, output: Any, targets: Tensor) -> None:
        """Refuse a loss whose value differs from the one reduced from its single losses. Raises ConfigError.

        ``output``: that of any examples, repeated for the first of ``targets``.
        """
        if self._whole is None or not isinstance(output, Tensor) or (self._margins and output.isnan().any()):
            return
        targets = targets[:COMPARED]
        output = output.detach()[torch.arange(len(targets), device=output.device) % len(output)]
        with torch.no_grad():
            expected = self._whole(output, targets)
            if not isinstance(expected, Tensor) or expected.ndim:
                return
            weights = self.weights(targets) if self.weighs(targets) else None
            losses = self.losses(output, targets, weights is not None).double()
            reduced, size = (float(self.together(each, weights)) for each in (losses, losses.abs()))
        value = float(expected)
        if math.isfinite(value) and not abs(value - reduced) <= TOLERANCE * max(abs(value), size):
            text = f"gives {value:.6g} for {len(targets)} examples, whose single losses make {reduced:.6g}"
            allowed = f"{text}; give a function of (output, targets) with a number for each example"
            raise ConfigError("task.loss", _name(self.given), allowed)


def _taken_apart(loss: Any) -> tuple[Callable[..., Any] | None, Callable[..., Any], dict[str, Any]]:
    """Return the loss of all examples (None without a ``reduction``), that of each, and their options. Raises ConfigError."""
    if hasattr(loss, "reduction"):
        try:
            whole, each = copy.deepcopy(loss), copy.deepcopy(loss)
        except Exception as error:  # a user's object may hold anything
            raise ConfigError("task.loss", _name(loss), f"cannot be copied ({' '.join(str(error).split())})") from error
        each.reduction = "none"
        return whole, each, {name: getattr(whole, name) for name in OPTIONS if hasattr(whole, name)}
    try:
        options = {name: parameter.default for name, parameter in inspect.signature(loss).parameters.items() if name in OPTIONS}
    except (TypeError, ValueError):
        options = {}
    if "reduction" not in options:
        return None, loss, {}
    return None if options["reduction"] is inspect.Parameter.empty else loss, partial(loss, reduction="none"), options


def _name(loss: Any) -> str:
    loss = getattr(loss, "func", loss)
    return loss.__name__ if inspect.isfunction(loss) else type(loss).__name__
