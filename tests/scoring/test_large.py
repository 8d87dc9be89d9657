"""Large centres: no copy of them anywhere, and the numbers of small ones."""

import pytest
import torch
from torch import nn

from neuro_cli import Evolution
from neuro_cli.algo.centre import optimizer as optimized_centre
from neuro_cli.core import layout
from neuro_cli.core.errors import CandidateError
from neuro_cli.sampler import sign_flip
from neuro_cli.scoring.passes import dense

INPUTS = torch.randn(20, 40, generator=torch.Generator().manual_seed(1))
TARGETS = torch.randn(20, 60, generator=torch.Generator().manual_seed(2))


@pytest.fixture(params=[True, False], ids=["large", "small"])
def size(request, monkeypatch):
    """Whether all centres count as large."""
    if request.param:
        for module in (layout, optimized_centre, sign_flip, dense):
            monkeypatch.setattr(module, "LARGE", 1)
        monkeypatch.setattr(optimized_centre, "_length", lambda size: 2**13)
        monkeypatch.setattr(dense, "PART", 2**11)
    return request.param


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(40, 530), nn.Tanh(), nn.LayerNorm(530), nn.Linear(530, 60))


def fitness(module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return -(module(inputs) - targets).square().mean(1)


def evolution(module: nn.Module, sampler: str, **options) -> Evolution:
    given = {"population": 8, "sigma": 0.05, "optimizer": torch.optim.Adam, "lr": 0.01, "threads": 2}
    return Evolution(module, sampler=sampler, **given | options)


def plain_fitnesses(evolved: Evolution, module: nn.Module) -> list[float]:
    """Fitnesses of all members in float64, each a module of its own."""
    found = []
    for candidate in evolved.ask():
        member = network().double()
        member.load_state_dict({name: value.double() for name, value in candidate.state_dict().items()})
        found.append(fitness(member, INPUTS.double(), TARGETS.double()).mean().item())
    return found


@pytest.mark.parametrize("sampler", ["low_rank", "sign_flip"])
def test_members_have_the_fitness_of_the_plain_loop(size, sampler):
    wanted = plain_fitnesses(evolution(network(), sampler), network())
    report = evolution(network(), sampler).step(fitness, INPUTS, TARGETS)
    assert report.fitness_mean == pytest.approx(sum(wanted) / len(wanted), rel=1e-6)
    assert report.fitness_best == pytest.approx(max(wanted), rel=1e-6)


@pytest.mark.parametrize("size", [True], indirect=True)
@pytest.mark.parametrize(("sampler", "kind"), [("low_rank", torch.optim.SGD), ("sign_flip", torch.optim.Adam)])
def test_a_run_and_its_continuation_have_the_same_bits_on_any_number_of_threads(size, sampler, kind):
    ends = []
    for threads, stop in ((1, 0), (2, 0), (1, 2)):
        module = network()
        evolved = evolution(module, sampler, optimizer=kind, threads=threads)
        for generation in range(4):
            if generation == stop > 0:
                state = evolved.state_dict()
                module = network()
                evolved = evolution(module, sampler, optimizer=kind, threads=threads)
                evolved.load_state_dict(state)
            evolved.step(fitness, INPUTS, TARGETS)
        ends.append(torch.cat([parameter.detach().flatten() for parameter in module.parameters()]))
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_the_modules_parameters_are_the_centre(size):
    module = network()
    evolved = evolution(module, "low_rank")
    evolved.step(fitness, INPUTS, TARGETS)
    centre = evolved._population.algo.centre
    assert (next(module.parameters()).data_ptr() == centre.data_ptr()) == size
    assert torch.equal(evolved.centre, centre)


@pytest.mark.parametrize("size", [True], indirect=True)
def test_memory_that_others_see_stays_where_it_is(size):
    module = network()
    seen = module[0].weight.detach()
    evolved = evolution(module, "low_rank")
    evolved.step(fitness, INPUTS, TARGETS)
    assert torch.equal(seen, module[0].weight)
    assert seen.data_ptr() == module[0].weight.data_ptr()


def lines() -> nn.Module:
    """Convolutions of sequences, whose bias is added in place, and an activation that overwrites."""
    torch.manual_seed(3)
    parts = nn.Conv1d(4, 8, 3), nn.LeakyReLU(inplace=True), nn.Conv1d(8, 4, 3), nn.Flatten(), nn.Linear(24, 60)
    return nn.Sequential(nn.Unflatten(1, (4, 10)), *parts)


def test_members_share_a_pass_of_calls_that_write_to_activations(size, caplog):
    evolved = evolution(lines(), "low_rank")
    with caplog.at_level("INFO"):
        evolved.step(fitness, INPUTS, TARGETS)
    assert "4 members in one forward pass" in caplog.text
    wanted = [fitness(member, INPUTS, TARGETS).mean().item() for member in evolved.ask()]
    assert evolved.step(fitness, INPUTS, TARGETS).fitness_mean == pytest.approx(sum(wanted) / len(wanted), rel=1e-5)


class Clamping(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.weight.clamp_(-0.01, 0.01)
        return super().forward(x)


def test_a_pass_that_writes_to_its_parameters_leaves_the_centre(size):
    torch.manual_seed(3)
    module = Clamping(40, 60)
    before = module.weight.detach().clone()
    evolved = evolution(module, "low_rank", optimizer=torch.optim.SGD, lr=0.0)
    evolved.step(fitness, INPUTS, TARGETS)
    assert torch.equal(module.weight, before)


def test_an_error_of_the_fitness_leaves_the_centre(size):
    module = network()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    with pytest.raises(CandidateError):
        evolution(module, "low_rank").step(lambda member, x, y: fitness(member, x, y) * float("nan"), INPUTS, TARGETS)
    assert all(torch.equal(one, other) for one, other in zip(before, module.parameters(), strict=True))
