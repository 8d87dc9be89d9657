"""Policy with a memory: a gated recurrent unit (Cho et al. 2014) and a linear layer on its state."""

from torch import Tensor, nn

from neuro_cli.core.checks import integer
from neuro_cli.model.mlp_policy import end_size, scale


class GRUPolicy(nn.Module):
    """Observations (B, inputs) and states (B, hidden) to outputs (B, outputs) and the next states.

    ``inputs`` and ``outputs`` come from the task if the config leaves them null. ``last_scale``: factor on the initial
    weights of the last layer; 0 begins with a policy that ignores its observations.
    """

    def __init__(self, inputs: int | None, outputs: int | None, hidden: int = 32, last_scale: float = 1.0) -> None:
        super().__init__()
        self.cell = nn.GRUCell(end_size("inputs", inputs), integer("model.hidden", hidden, 1))
        self.last = nn.Linear(hidden, end_size("outputs", outputs))
        scale(self.last, last_scale)

    def reset(self, count: int) -> Tensor:
        """Return the GRU's states of ``count`` episodes that begin: zeros."""
        return self.last.weight.new_zeros(count, self.cell.hidden_size)

    def forward(self, observations: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        states = self.cell(observations.flatten(1), states)
        return self.last(states), states
