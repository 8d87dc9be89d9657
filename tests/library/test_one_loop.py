"""A loop is one object: closed ones, copies and pickles are one line; a module may hold its own loop; NumPy's numbers count."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.errors import UserError


def squares(outputs: Tensor) -> Tensor:
    return outputs.square().sum(1)


class Trained(nn.Module):
    """Holds what trains it, as a LightningModule with manual optimisation does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.estimate = neuro.ForwardGradient(self, threads=2)
        self.evolution = neuro.Evolution(self, population=4, threads=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_a_module_may_hold_the_loops_that_train_it():
    module, x = Trained(), torch.ones(4, 3)
    before = module.layer.weight.clone()
    module.estimate.backward(squares, x)
    module.evolution.step(lambda member: -float(squares(member(x)).sum()))
    assert module.layer.weight.grad is not None
    assert not torch.equal(module.layer.weight, before)


@pytest.mark.parametrize("kind", [neuro.Evolution, neuro.ForwardGradient])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_loop_is_not_copied(kind, copied):
    with kind(nn.Linear(3, 1)) as loop, pytest.raises(TypeError, match=r"has threads and ranks and is not copied: .*state_dict"):
        copied(loop)


def test_a_closed_loop_says_so():
    with neuro.Evolution(nn.Linear(3, 1), population=4) as es:
        pass
    for call in (lambda: es.step(lambda member: 0.0), es.ask, lambda: es.tell([0.0] * 4)):
        with pytest.raises(UserError, match="this Evolution is closed"):
            call()
    with neuro.ForwardGradient(nn.Linear(3, 1)) as estimate:
        pass
    with pytest.raises(UserError, match="backward: this ForwardGradient is closed"):
        estimate.backward(squares, torch.ones(2, 3))


def test_numbers_of_numpy_are_python_numbers(tmp_path):
    options = {"population": np.int64(4), "seed": np.uint8(3), "sigma": np.float32(0.25), "threads": np.int16(1)}
    plain = {name: value.item() for name, value in options.items()}
    centres = []
    for given in (options, plain):
        torch.manual_seed(1)
        with neuro.Evolution(nn.Linear(3, 1), **given) as es:
            es.step(lambda member: -float(member.weight.square().sum()))
            torch.save(es.state_dict(), tmp_path / "state.pt")
            centres.append(es.centre)
    assert torch.equal(*centres)
    assert torch.load(tmp_path / "state.pt", weights_only=True)["settings"]["population"] == 4
