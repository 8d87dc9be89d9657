"""Optimizers of torch over the centre: any whose step takes gradients alone, others refused before anything is scored."""

from functools import partial

import pytest
import torch
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.optimizer import ScheduledOptimizer
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.schedule import CONSTANT

KINDS = [kind for kind in vars(torch.optim).values() if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)]
REFUSED = {"LBFGS": "'closure'", "SparseAdam": "does not support dense gradients"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not torch.optim.Optimizer])
def test_every_optimizer_of_torch_steps_or_is_refused_at_the_start(kind):
    with Evolution(nn.Linear(3, 2, bias=False), population=4, optimizer=kind, lr=0.1, threads=1) as es:
        if kind.__name__ in REFUSED:
            line = rf"^algo\.optimizer={kind.__name__}: takes no step from dense gradients alone \(.*{REFUSED[kind.__name__]}"
            with pytest.raises(ConfigError, match=line):
                es.ask()
            return
        before = es.centre
        es.ask()
        es.tell([1.0, 2.0, 3.0, 4.0])
        assert not torch.equal(es.centre, before)


def test_what_was_tried_leaves_no_trace():
    parameters = [nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(4))]
    made = ScheduledOptimizer(partial(torch.optim.Adam, lr=0.1), CONSTANT, parameters, factors=[1.0, 0.5])
    assert not made.state().tensors
    assert all(bool((parameter == 1).all()) and parameter.grad is None for parameter in parameters)
