"""Policy with a memory: a gated recurrent unit (Cho et al. 2014) and a linear layer on its state."""

import torch
from torch import Tensor, nn

from neuro_cli.core.checks import integer, number
from neuro_cli.core.errors import ConfigError


class GRUPolicy(nn.Module):
    """Observations (B, inputs) and states (B, hidden) to outputs (B, outputs) and the next states.

    ``inputs`` and ``outputs`` come from the task if the config leaves them null. ``last_scale``: factor on the initial
    weights of the last layer; 0 begins with a policy that ignores its observations.
    """

    def __init__(self, inputs: int | None, outputs: int | None, hidden: int = 32, last_scale: float = 1.0) -> None:
        super().__init__()
        for key, value in (("inputs", inputs), ("outputs", outputs)):
            if value is None:
                raise ConfigError(f"model.{key}", None, "the task does not set it, so a number is needed")
            integer(f"model.{key}", value, 1)
        assert inputs is not None
        assert outputs is not None
        self.cell = nn.GRUCell(inputs, integer("model.hidden", hidden, 1))
        self.last = nn.Linear(hidden, outputs)
        number("model.last_scale", last_scale, low=0.0)
        with torch.no_grad():
            for parameter in self.last.parameters():
                parameter.mul_(last_scale)

    def reset(self, count: int) -> Tensor:
        """Return the states of ``count`` episodes that begin: zeros."""
        return self.last.weight.new_zeros(count, self.cell.hidden_size)

    def forward(self, observations: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        states = self.cell(observations.flatten(1), states)
        return self.last(states), states
