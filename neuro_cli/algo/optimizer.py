"""A ``torch.optim`` optimizer over the flat centre: it sees tensors of the model's shapes, we keep one vector.

Any class of ``torch.optim`` whose step needs no closure works, matrix-shaped ones too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from neuro_cli.algo.base import State
from neuro_cli.core.errors import UserError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import Schedule

OptimizerFactory = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class CentreOptimizer:
    """Holds the centre (M,) and steps it down a gradient (M,)."""

    def __init__(self, factory: OptimizerFactory, schedule: Schedule, centre: Tensor, layout: ParameterLayout) -> None:
        self.centre = centre.clone()
        self._schedule = schedule
        self._gradient = torch.zeros_like(centre)
        self._parameters = [nn.Parameter(view) for view in layout.views(self.centre)]
        for parameter, gradient in zip(self._parameters, layout.views(self._gradient), strict=True):
            parameter.grad = gradient
        try:
            self._optimizer = factory(self._parameters)
        except (TypeError, ValueError) as error:
            raise UserError(f"algo.optimizer: {error}") from error
        self._rates = [float(group["lr"]) for group in self._optimizer.param_groups]

    def descend(self, generation: int, gradient: Tensor) -> None:
        """One step against ``gradient`` with the generation's learning rate."""
        self._gradient.copy_(gradient)
        factor = self._schedule.factor(generation)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._optimizer.step()

    def state(self) -> State:
        state = State({"centre": self.centre.clone()})
        for index, values in self._optimizer.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    state.tensors[f"optimizer.{index}.{name}"] = value.clone()
                else:
                    state.scalars[f"optimizer.{index}.{name}"] = value
        return state

    def restore(self, state: State) -> None:
        self.centre.copy_(state.tensors["centre"])
        slots: dict[int, dict[str, Any]] = {}
        for key, value in [*state.tensors.items(), *state.scalars.items()]:
            if key.startswith("optimizer."):
                _, index, name = key.split(".", 2)
                slots.setdefault(int(index), {})[name] = value
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": slots})
