"""A centre kept in bfloat16, and steps of some columns after the others."""

from functools import partial
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from neuro_cli.algo.centre import optimizer as optimized_centre
from neuro_cli.algo.centre.optimizer import CentreOptimizer
from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.algo.clipup import ClipUp
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.machine.threads import Threads
from neuro_cli.core.noise import Noise
from neuro_cli.core.rounding import Rounding
from neuro_cli.core.schedule import CONSTANT


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 2))


def made(kind: type, dtype: torch.dtype = torch.bfloat16, **options: float) -> CentreOptimizer:
    torch.manual_seed(0)
    module = Net().to(dtype)
    layout = ParameterLayout(module)
    made = CentreOptimizer(partial(kind, **options), CONSTANT, layout.flatten(module), layout)
    if dtype == torch.bfloat16:
        made.rounding = Rounding(Noise(1, layout.size, torch.device("cpu"), Threads(1)))
    return made


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a small centre step in pieces of 16 rows."""
    monkeypatch.setattr(optimized_centre, "LARGE", 0)
    monkeypatch.setattr(optimized_centre, "ROWS", 16)
    monkeypatch.setattr(optimized_centre, "PIECE", 1000)
    monkeypatch.setattr(optimized_centre, "_length", lambda size: 1000)


def gradient(centre: CentreOptimizer, generation: int) -> Tensor:
    return torch.randn(len(centre.centre), generator=torch.Generator().manual_seed(generation))


def test_a_thousand_steps_of_a_hundredth_of_half_a_place_arrive():
    centre = made(torch.optim.SGD, lr=1.0)
    centre.centre.fill_(1.0)  # neighbours above are 2**-7 apart, and rounding to nearest would lose what is below 2**-8
    step = 2**-8 / 100
    assert torch.equal((centre.centre.float() + step).bfloat16(), centre.centre)
    for generation in range(1000):
        centre.ascend(generation, torch.full((len(centre.centre),), step))
    moved = centre.centre.double() - 1.0
    assert abs(moved.mean() - 1000 * step) < 5 * moved.std() / len(moved) ** 0.5


MOMENTUM = {"lr": 0.1, "momentum": 0.9}
ADAPTIVE = {"lr": 0.01}


@pytest.mark.parametrize(
    ("kind", "options"),
    [(torch.optim.SGD, MOMENTUM), (torch.optim.Adam, ADAPTIVE), (torch.optim.Adagrad, ADAPTIVE), (ClipUp, {})],
)
def test_steps_are_those_of_float32_but_for_the_rounding_and_states_are_float32(kind, options):
    rounded, exact = made(kind, **options), made(kind, torch.float32, **options)
    exact.centre.copy_(rounded.centre)
    for generation in range(3):
        before = rounded.centre.float()
        exact.centre.copy_(before)
        rounded.ascend(generation, gradient(rounded, generation), decay=0.1)
        exact.ascend(generation, gradient(exact, generation), decay=0.1)
        place = exact.centre.abs() * 2**-7  # distance of two neighbours, at most
        assert ((rounded.centre.float() - exact.centre).abs() <= place).all()
        assert not torch.equal(rounded.centre.float(), before)
    for name, tensor in rounded.state().tensors.items():
        assert tensor.dtype == (torch.bfloat16 if name == "centre" else torch.float32)
        if name != "centre":
            assert torch.equal(tensor, exact.state().tensors[name])


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.Adagrad, ClipUp])
def test_a_restored_state_gives_the_same_bits(kind):
    first, second = made(kind), made(kind)
    first.ascend(0, gradient(first, 0))
    state = first.state()
    first.ascend(1, gradient(first, 1))
    second.restore(state)
    second.ascend(1, gradient(second, 1))
    assert torch.equal(first.centre, second.centre)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_columns_after_columns_give_the_bits_of_all_at_once(dtype, monkeypatch):
    whole = made(torch.optim.Adam, dtype)
    assert whole.spans is None
    in_pieces(monkeypatch)
    parted = made(torch.optim.Adam, dtype)
    assert [high - low for low, high in parted.spans] == [224 + 1024, 1024, 1024, 1024, 64 + 128 + 128 + 2]
    for generation in range(2):
        whole.ascend(generation, gradient(whole, generation), decay=0.1)
        estimate = gradient(parted, generation)
        for low, high in parted.spans:
            parted.ascend_span(generation, estimate[low:high], low, decay=0.1)
    assert torch.equal(whole.centre, parted.centre)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_threads_step_pieces_side_by_side_with_the_bits_of_one(kind, dtype, monkeypatch):
    in_pieces(monkeypatch)
    alone, shared = made(kind, dtype, lr=0.01), made(kind, dtype, lr=0.01)
    shared.threads = Threads(2)
    step, both = ScheduledOptimizer.step, Barrier(2, timeout=120)

    def met(*given: Any) -> None:
        if 1024 in {parameter.numel() for parameter in given[3]}:  # a pair of pieces of one span
            both.wait()
        step(*given)

    monkeypatch.setattr(optimized_centre, "_length", lambda size: 2048 + 224)
    for generation in range(2):
        alone.ascend(generation, gradient(alone, generation), decay=0.1)
    monkeypatch.setattr(ScheduledOptimizer, "step", met)
    for generation in range(2):
        shared.ascend(generation, gradient(shared, generation), decay=0.1)
    assert torch.equal(alone.centre, shared.centre)
    assert alone.state().tensors.keys() == shared.state().tensors.keys()
    for name, tensor in alone.state().tensors.items():
        assert torch.equal(tensor, shared.state().tensors[name]), name
    if dtype == torch.bfloat16:  # memory for one span, not for all
        assert len(shared._room) == max(high - low for low, high in shared.spans)


def test_tensors_whose_step_depends_on_all_move_together(monkeypatch):
    in_pieces(monkeypatch)
    assert made(ClipUp).spans is None


def test_an_average_is_refused():
    module = Net().bfloat16()
    layout = ParameterLayout(module)
    with pytest.raises(ConfigError, match=r"algo.average=0.5: must be 0 with weights in bfloat16"):
        CentreOptimizer(partial(torch.optim.SGD, lr=1.0), CONSTANT, layout.flatten(module), layout, average=0.5)
