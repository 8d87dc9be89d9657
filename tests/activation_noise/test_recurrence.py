"""Recurrent layers as one layer for all steps."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise.derivatives.recurrence import CELLS, layers

KINDS = (nn.LSTM, nn.GRU, nn.RNN)


class States(nn.Module):
    """A recurrent layer whose initial states depend on the examples, and whose last states reach the outputs."""

    def __init__(self, kind: type[nn.RNNBase], **options: bool | int) -> None:
        super().__init__()
        self.run = kind(4, 6, 2, **options)
        directions = 1 + self.run.bidirectional
        self.first, self.last = nn.Linear(4, 12 * directions), nn.Linear(12 * directions, 3)
        self.count = 2 * directions

    def forward(self, x: Tensor) -> Tensor:
        steps = x if self.run.batch_first else x.transpose(0, 1)
        state = torch.tanh(self.first(x[:, 0])).unflatten(1, (self.count, 6)).transpose(0, 1)
        outputs, last = self.run(steps, (state, 0.5 * state) if isinstance(self.run, nn.LSTM) else state)
        last = sum(last) if isinstance(last, tuple) else last
        means = outputs.mean(1 if self.run.batch_first else 0)
        return self.last(F.pad(means, (0, self.last.in_features - means.shape[1])) + last.transpose(0, 1).flatten(1))


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean(1)


def gradients(model: nn.Module) -> Tensor:
    found = torch.cat([p.grad.flatten().double() for p in model.parameters() if p.grad is not None])
    model.zero_grad()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"batch_first": True, "bias": False}, {"bidirectional": True}], ids=str)
def test_predictions_alone_are_the_gradient_of_autograd(kind, options):
    torch.manual_seed(3)
    model, x, targets = States(kind, **options), torch.randn(5, 7, 4), torch.randn(5, 3)
    losses(model(x), targets).mean().backward()
    right = gradients(model)
    neuro.ForwardGradient(model, correction="never", threads=1).backward(losses, x, targets)
    torch.testing.assert_close(gradients(model), right, rtol=1e-3, atol=1e-5)


def test_a_recurrent_layer_has_a_layer_for_its_inputs_and_one_for_its_states(caplog):
    model, x, targets = States(nn.LSTM), torch.randn(5, 7, 4), torch.randn(5, 3)
    with caplog.at_level("INFO", "neuro_cli"):
        neuro.ForwardGradient(model, threads=1).backward(losses, x, targets)
    assert "noise on 6 layers" in caplog.text  # one for each step would be 18


@pytest.mark.parametrize("kind", KINDS)
def test_each_step_has_a_loss(kind):
    torch.manual_seed(4)
    model, x, targets = kind(4, 6, batch_first=True), torch.randn(5, 7, 4), torch.randn(5, 7, 6)
    model.weight_hh_l0.requires_grad_(False)

    def of_steps(outputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
        return (outputs[0] - targets).square().mean(2)

    of_steps(model(x), targets).mean().backward()
    right = gradients(model)
    neuro.ForwardGradient(model, correction="never", threads=1).backward(of_steps, x, targets)
    torch.testing.assert_close(gradients(model), right, rtol=1e-3, atol=1e-5)
    assert model.weight_hh_l0.grad is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_scan_gives_the_outputs_of_the_module(kind):
    torch.manual_seed(5)
    model, x = kind(4, 6, 2, bidirectional=True).double(), torch.randn(7, 5, 4, dtype=torch.float64)
    state = torch.zeros(4, 5, 6, dtype=torch.float64)
    name = {"RNN": "rnn_tanh"}.get(kind.__name__, kind.__name__.lower())
    given = (state, state) if kind is nn.LSTM else state
    outputs, *last = layers(CELLS[getattr(torch, name)], x, given, model._flat_weights, True, 2, 0.0, False, True, False)
    right, states = model(x)
    torch.testing.assert_close(outputs, right)
    torch.testing.assert_close(tuple(last), states if isinstance(states, tuple) else (states,))


def test_half_precision_is_no_further_from_float32_than_autograd():
    torch.manual_seed(6)
    model, x, targets = States(nn.LSTM, batch_first=True), torch.randn(5, 40, 4), torch.randn(5, 3)
    losses(model(x), targets).mean().backward()
    right = gradients(model)
    neuro.ForwardGradient(model, correction="never", threads=1, precision="bfloat16").backward(losses, x, targets)
    ours = gradients(model)
    half = States(nn.LSTM, batch_first=True).bfloat16()
    half.load_state_dict(model.state_dict())
    losses(half(x.bfloat16()), targets.bfloat16()).mean().backward()
    assert (ours - right).norm() < 1.2 * (gradients(half) - right).norm()


class Reads(States):
    """A network whose Python code reads numbers, so that passes with noise run it again."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2.0 if float(x.sum()) > -1e9 else 1.0)


@pytest.mark.parametrize("kind", [States, Reads])
@pytest.mark.parametrize("most", [10, 1 << 24], ids=["without a model", "with one"])
def test_noise_enters_at_each_step(monkeypatch, kind, most):
    """``most``: values of a response model; a larger call has none, so that its noise is corrected."""
    monkeypatch.setattr("neuro_cli.activation_noise.derivatives.backward_graph.MODEL_VALUES", most)
    torch.manual_seed(7)
    model, x, targets = kind(nn.GRU), torch.randn(5, 7, 4), torch.randn(5, 3)
    losses(model(x), targets).mean().backward()
    right = gradients(model)
    neuro.ForwardGradient(model, correction="always", draws=300, sigma=0.01, threads=1).backward(losses, x, targets)
    assert F.cosine_similarity(gradients(model), right, dim=0) > 0.9
