"""Gradient baseline: back-propagation of the same loss on the same batches, with any ``torch.optim`` optimizer."""

from torch import Tensor

from neuro_cli.algo.base import GradientAlgorithm
from neuro_cli.algo.centre.optimizer import CentreOptimizer, OptimizedCentre
from neuro_cli.algo.centre.torch_optimizer import OptimizerFactory
from neuro_cli.core.checks import number
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import Schedule


class SGD(OptimizedCentre, GradientAlgorithm):
    """Steps against the gradient.

    ``average`` in [0, 1): share of the past in the average of centres that is evaluated and saved.
    """

    def __init__(self, optimizer: OptimizerFactory, lr_schedule: Schedule, average: float = 0.0) -> None:
        self._factory, self._schedule = optimizer, lr_schedule
        self._average = number("algo.average", average, low=0.0, below=1.0)

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        self._optimizer = CentreOptimizer(self._factory, self._schedule, centre, layout, average=self._average)

    def tell_gradient(self, generation: int, gradient: Tensor) -> None:
        self._optimizer.ascend(generation, -gradient)
