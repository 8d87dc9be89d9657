"""Policy of linear layers, which outputs preferences for discrete actions or a continuous action."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from neuro_cli.core.checks import integer, number, one_of
from neuro_cli.core.errors import ConfigError

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid}


class MLPPolicy(nn.Sequential):
    """Observations (B, inputs) to outputs (B, outputs). ``hidden``: widths of the hidden layers, none for a linear policy.

    ``inputs`` and ``outputs`` come from the task if the config leaves them null. ``last_scale``: factor on the initial
    weights of the last layer; 0 begins with a policy that ignores its observations.
    """

    def __init__(
        self,
        inputs: int | None,
        outputs: int | None,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        last_scale: float = 1.0,
    ) -> None:
        for key, value in (("inputs", inputs), ("outputs", outputs)):
            if value is None:
                raise ConfigError(f"model.{key}", None, "the task does not set it, so a number is needed")
            integer(f"model.{key}", value, 1)
        if not isinstance(hidden, list | tuple):
            raise ConfigError("model.hidden", hidden, "must be a list of widths, for example [64,64]")
        for width in hidden:
            integer("model.hidden", width, 1)
        kind = ACTIVATIONS[one_of("model.activation", activation, tuple(ACTIVATIONS))]
        number("model.last_scale", last_scale, low=0.0)
        layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
        sizes = list(pairwise([inputs, *hidden, outputs]))
        for place, (before, after) in enumerate(sizes):
            assert before is not None
            assert after is not None
            layers[f"layer_{place}"] = nn.Linear(before, after)
            if place < len(hidden):
                layers[f"activation_{place}"] = kind()
        super().__init__(layers)
        with torch.no_grad():
            for parameter in self[-1].parameters():
                parameter.mul_(last_scale)
