"""Policy of linear layers, which outputs preferences for discrete actions or a continuous action."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from neuro_cli.core.checks import boolean, integer, number, one_of
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.module.gain import Gain
from neuro_cli.model.shapes import checked_widths

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}


class MLPPolicy(nn.Sequential):
    """Observations (B, inputs) to outputs (B, outputs). ``hidden``: widths of the hidden layers, none for a linear policy.

    ``inputs`` and ``outputs`` come from the task if the config leaves them null. ``last_scale``: factor on the initial
    weights of the last layer; 0 begins with a policy that ignores its observations. ``gain``: the last layer has a gain for
    each output, which depends on the observation too (:class:`Gain`), as in gain scheduling. Raises ConfigError.
    """

    def __init__(
        self,
        inputs: int | None,
        outputs: int | None,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        last_scale: float = 1.0,
        gain: bool = False,
    ) -> None:
        first, last, hidden = end_size("inputs", inputs), end_size("outputs", outputs), checked_widths(hidden)
        kind = ACTIVATIONS[one_of("model.activation", activation, tuple(ACTIVATIONS))]
        layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        gain = boolean("model.gain", gain)
        for place, (before, after) in enumerate(pairwise([first, *hidden, 2 * last if gain else last])):
            layers[f"layer_{place}"] = nn.Linear(before, after)
            if place < len(hidden):
                layers[f"activation_{place}"] = kind()
        scale(layers[f"layer_{len(hidden)}"], last_scale)
        if gain:
            layers["gain"] = Gain()
        super().__init__(layers)


def end_size(end: str, size: int | None) -> int:
    """Return the size of a policy's inputs or outputs. Raises ConfigError where the task gives none."""
    if size is None:
        raise ConfigError(f"model.{end}", None, "the task does not set it, so a number is needed")
    return integer(f"model.{end}", size, 1)


def scale(last: nn.Module, factor: float) -> None:
    """Multiply the parameters of a policy's last layer by ``factor`` >= 0. Raises ConfigError."""
    number("model.last_scale", factor, low=0.0)
    with torch.no_grad():
        for parameter in last.parameters():
            parameter.mul_(factor)
