"""Variance of estimates by noise on activations against its formula, within five standard errors."""

import numpy as np
import pytest
from activation_lab import Made, bound, estimate, gradient
from torch import Tensor, nn

from neuro_cli.task.base import Batch

INPUTS, OUTPUTS, GENERATIONS = 5, 6, 300


class Linear(Made):
    """A fitness that is linear in the outputs: its gradient by them is the target."""

    def rewards(self, module: nn.Module, batch: Batch) -> Tensor:
        made = module(batch.inputs)
        return (made * batch.targets.to(made.dtype)).sum(1, keepdim=True)

    def example_scores(self, module: nn.Module, batch: Batch) -> Tensor:
        return self.rewards(module, batch)

    def loss(self, module: nn.Module, batch: Batch) -> Tensor:
        return -self.rewards(module, batch).mean()


@pytest.mark.parametrize(("examples", "pairs"), [(4, 2), (4, 8), (32, 2)])
def test_variance_falls_with_pairs_and_with_examples_and_grows_with_outputs_alone(examples, pairs):
    task = Linear((INPUTS,), OUTPUTS, examples, same=True)
    parts = bound(
        lambda: nn.Linear(INPUTS, OUTPUTS, bias=False), task, draws=pairs, scale="absolute", space="outputs",
        control_variates=False,
    )  # fmt: skip
    right, batch = gradient(parts), task.batch(0, 0, examples)
    errors = np.array([float((estimate(parts, generation) - right).square().sum()) for generation in range(GENERATIONS)])
    sizes = batch.inputs.double().square().sum(1) @ batch.targets.double().square().sum(1)
    expected = (OUTPUTS + 1) / (pairs * examples**2) * float(sizes)
    error = errors.std() / GENERATIONS**0.5
    assert abs(errors.mean() - expected) < 5 * error, (errors.mean(), expected, error)
    assert error < 0.1 * expected
