"""Lines of loops on what a script changed or gave: another rate at a resume, frozen parameters, packed sequences."""

import copy
import logging

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from neuro_cli import Evolution, ForwardGradient, perturbed
from neuro_cli.core.errors import UserError

X, Y = torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), torch.ones(8, 2)


def fitness(module):
    return -float((module(X) - Y).square().mean())


def losses(outputs, targets):
    return (outputs - targets).square().mean(1)


def test_a_run_folder_resumed_with_another_function_of_the_rate_says_so(tmp_path, caplog):
    for rate in (0.1, 0.1, 0.3):
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING),
            Evolution(
                nn.Linear(3, 2), population=4, lr=lambda generation, rate=rate: rate / (1 + generation), folder=tmp_path
            ) as evolution,
        ):
            evolution.step(fitness)
        said = [line for line in caplog.messages if "lr=" in line]
        assert len(said) == (rate != 0.1)
        assert all(line.startswith("folder: lr=0.0999") and "from now on; the saved state had 0.0333" in line for line in said)


@pytest.mark.parametrize("kind", ["Evolution", "ForwardGradient"])
def test_the_text_of_a_loop_follows_parameters_frozen_before_the_first_step(kind):
    net = nn.Linear(3, 2)
    loop = Evolution(net, population=4) if kind == "Evolution" else ForwardGradient(net)
    assert "parameters=8," in repr(loop)
    net.bias.requires_grad_(False)
    if isinstance(loop, Evolution):
        loop.step(fitness)
    else:
        loop.backward(losses, X, Y)
    assert "parameters=6," in repr(loop)


class Packed(nn.Module):
    """A recurrent network that takes a packed sequence, or packs one."""

    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        given = pack_padded_sequence(x, 8 - torch.arange(len(x)), batch_first=True) if isinstance(x, torch.Tensor) else x
        return self.head(self.cells(given)[1][-1])


def test_packed_sequences_are_refused_with_what_to_give_and_are_right_in_single_members():
    sequences = torch.randn(8, 8, 3, generator=torch.Generator().manual_seed(2))
    packed = pack_padded_sequence(sequences, torch.arange(8, 0, -1), batch_first=True)
    line = "a packed sequence has no row for each example: give the padded one, and pick a last step by its length"
    for given in (sequences, packed):
        with pytest.raises(UserError, match=line):
            ForwardGradient(Packed()).backward(losses, given, Y)
    net = Packed()
    given = copy.deepcopy(net)
    with pytest.raises(UserError, match=line), perturbed(net, "antithetic", 4, shared=True):
        net(packed)
    reports = [
        Evolution(net, population=4).step(lambda member: -float(losses(member(packed), Y).mean())),
        Evolution(copy.deepcopy(given), population=4).step(lambda member, x, y: -losses(member(x), y), sequences, Y),
    ]
    assert reports[0].fitness_mean == pytest.approx(reports[1].fitness_mean)
