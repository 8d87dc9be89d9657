"""Step functions in the backward graph: their slopes under noise, chains of calls, and training by predictions alone."""

import math
from collections.abc import Callable

import pytest
import torch
from activation_lab import Made, bound, estimate
from support.thread_ranks import on_ranks
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.activation_noise.derivatives.backward_graph import depends_on_steps
from neuro_cli.activation_noise.derivatives.mean_square import root_mean_square
from neuro_cli.activation_noise.derivatives.outside_torch import ForeignValues
from neuro_cli.activation_noise.derivatives.step_functions import WIDTH, Step
from neuro_cli.activation_noise.recording.clean_pass import RecordingMode
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.distribution.replicated import Replicated
from neuro_cli.fabric.base import World
from neuro_cli.scoring.passes.example_marks import with_mark


class Call(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def stepped(function: Callable[[Tensor], Tensor]) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), Call(function), nn.Linear(16, 3))


def spike(x: Tensor) -> Tensor:
    return (x >= 0.1).to(x.dtype)


def three_levels(x: Tensor) -> Tensor:
    return (x / 2).round().sign()


CHAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "sign": torch.sign,
    "a comparison": spike,
    "heaviside": lambda x: torch.heaviside(x - 0.1, torch.ones((), dtype=x.dtype)),
    "two steps": three_levels,
    "a division": lambda x: x // 0.5,
    "a cast": lambda x: (4 * x).to(torch.int32).to(x.dtype),
    "a selection": lambda x: torch.where(x > 0, 1.0, -0.5).to(x.dtype),
    "detached": lambda x: x.detach() * 3,
}


def recorded(module: nn.Module, x: Tensor) -> RecordingMode:
    layout, parameters = ParameterLayout(module), dict(module.named_parameters())
    places = {id(parameters[place.name]): (parameters[place.name], place) for place in layout.places}
    with_mark([x])
    with torch.no_grad(), RecordingMode(places, ForeignValues(module, len(x)), False, True) as mode:
        module(x)
    mode.record.join_layers()
    return mode


@pytest.mark.parametrize("function", CHAINS.values(), ids=list(CHAINS))
def test_calls_without_a_derivative_pass_it_by_the_slope_of_their_mean_under_noise(function):
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(5, 16), Call(function)), torch.randn(200, 5)
    record = recorded(module, x).record
    result = record.calls[-1].result
    torch.autograd.grad([result], [record.root], [torch.ones_like(result)], allow_unused=True)
    outputs = module[0](x).detach()
    size = WIDTH * float(outputs.std())
    noise, few = torch.randn(20_000, 1, 1), outputs[:20]
    slope = (noise * (function(few + size * noise) - function(few - size * noise))).mean(0) / (2 * size)
    error = (record.nodes[0].derivative[:20] - slope).square().mean().sqrt()
    assert error < 0.35 * slope.square().mean().sqrt()  # the integral has four points
    assert depends_on_steps(result)


def test_a_linear_function_has_its_own_slope():
    x = torch.randn(7, 3, dtype=torch.float64)
    torch.testing.assert_close(Step(x, lambda value: 2.5 * value + 1).slope(), torch.full_like(x, 2.5))


def test_slopes_do_not_depend_on_an_offset_and_integrate_to_the_height_of_the_step():
    x = torch.linspace(-3, 3, 6001, dtype=torch.float64)
    slopes = Step(x, spike).slope()
    torch.testing.assert_close(Step(x + 100, lambda value: spike(value - 100)).slope(), slopes)
    assert float(slopes.sum() * (x[1] - x[0])) == pytest.approx(1, abs=0.02)


def test_a_tensor_made_in_the_form_of_another_is_no_step():
    def padded(x: Tensor) -> Tensor:
        return torch.stack([x, torch.zeros_like(x), x.new_ones(x.shape)]).sum(0)

    record = recorded(stepped(padded), torch.randn(6, 5)).record
    assert not depends_on_steps(record.calls[-1].result)
    assert not record.cut


def test_a_first_layer_behind_a_comparison_learns_by_predictions_alone():
    """Without a slope of the comparison only the last layer would learn; two units must turn, which it cannot make up for."""
    torch.manual_seed(1)
    x = torch.randn(128, 2)
    targets = (x @ torch.tensor([1.0, 1.0]) > 0.5).float()[:, None]
    losses = {}
    for trained in (True, False):
        torch.manual_seed(2)
        model = nn.Sequential(nn.Linear(2, 2), Call(spike), nn.Linear(2, 1))
        model[0].requires_grad_(trained)
        parts = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.Adam(parts, lr=0.05)
        forward = neuro.ForwardGradient(model, draws=1, correction="never", seed=1)
        for _ in range(60):
            loss = forward.backward(lambda made, right: (made - right).square().mean(1), x, targets)
            optimizer.step()
            optimizer.zero_grad()
        losses[trained] = float(loss)
    assert losses[True] < 0.06 < 0.12 < losses[False]


def test_predictions_through_steps_have_the_same_bits_on_any_ranks():
    def centre(world: World) -> list[float]:
        parts = bound(
            lambda: stepped(three_levels),
            Made((5,), 3, 12),
            world,
            method=Replicated(),
            control_variates=True,
            correction="never",
            precision=torch.float32,
        )
        return estimate(parts).tolist()

    [alone] = on_ranks(1, centre)
    assert any(alone)
    assert all(math.isfinite(value) for value in alone)
    for other in on_ranks(3, centre):
        assert other == alone


def test_the_size_of_many_values_is_exact():
    """torch's norm of so many equal numbers is 1 % too small, or more: it adds up one by one."""
    x = torch.full((2**22, 9), 0.7)[:, :8]
    assert root_mean_square(x) == pytest.approx(0.7, rel=1e-5)
    assert float(torch.linalg.vector_norm(x)) / math.sqrt(x.numel()) < 0.693
