"""Modules that a script changes between two steps: the centre takes over parameters, a line names what members keep as given."""

import logging

import numpy as np
import pytest
import torch
from support.thread_ranks import on_ranks
from torch import Tensor, nn

import neuro_cli as neuro
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.seeds import seeded
from neuro_cli.fabric.base import World

SIGMA = 0.1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("shift", torch.zeros(3))
        self.gain = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.body(x)) * self.gain + self.shift


def fitness(member: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return -(member(x) - y).square().mean(1)


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(12, 6, generator=generator), torch.randn(12, 3, generator=generator)


def begun(**options) -> neuro.Evolution:
    """Evolution after a step."""
    with seeded(0):  # ranks are threads here, and torch has one generator for all
        net = Net()
    es = neuro.Evolution(net, **{"population": 8, "sigma": SIGMA, "threads": 1} | options)
    es.step(fitness, *data())
    return es


def warnings_of(caplog) -> list[str]:
    """Messages of warnings: an earlier test of the process may have left the log at another level."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def halved(module: nn.Module) -> None:
    with torch.no_grad():
        module.body[0].weight.mul_(0.5)


WRITES = {
    "in place": halved,
    "its numbers": lambda module: module.body[2].bias.data.fill_(0.3),
    "another layer": lambda module: module.body.__setitem__(0, nn.Linear(6, 9)),
    "a state": lambda module: module.load_state_dict({**module.state_dict(), "norm.weight": torch.full((3,), 2.0)}),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("algo", ["openai_es", "snes"])
def test_members_are_around_parameters_that_a_script_wrote(algo, write):
    es = begun(algo=algo)
    WRITES[write](es.module)
    wanted = []
    layout, scale = ParameterLayout(es.module, False), es._algo.ask(1).scale
    for member in range(8):
        copy = Net()
        step = es._sampler.explicit(1, member // 2) * (1 - 2 * (member % 2))
        layout.load(copy, layout.flatten(es.module) + scale * step)
        with torch.no_grad():
            wanted.append(float(fitness(copy, *data()).mean()))
    report = es.step(fitness, *data())
    assert report.fitness_best == pytest.approx(max(wanted), abs=1e-5)
    assert report.fitness_mean == pytest.approx(np.mean(wanted), abs=1e-5)


def test_candidates_of_ask_are_around_them_too():
    es = neuro.Evolution(torch.zeros(3), population=4, sigma=0.01)
    es.ask()
    es.tell([0.0, 1.0, 2.0, 3.0])
    es.module.vector.data.fill_(5.0)
    assert (es.ask().vectors - 5.0).abs().max() < 0.1


@pytest.mark.parametrize("sampler", ["antithetic", "activation"])
@pytest.mark.parametrize("when", ["saved", "loaded"])
def test_a_state_has_them_and_they_may_be_written_to_a_loaded_one(sampler, when):
    options = {"sampler": sampler, "sigma": None} if sampler == "activation" else {}
    es = begun(**options)
    other, state = begun(**options), es.state_dict()
    halved(es.module)
    if when == "saved":
        state = es.state_dict()
    other.load_state_dict(state)
    if when == "loaded":
        halved(other.module)
    assert torch.equal(other.state_dict()["tensors"]["parameters"], es.state_dict()["tensors"]["parameters"])
    for each in (es, other):
        each.step(fitness, *data())
    assert torch.equal(es.centre, other.centre)


def test_a_state_of_an_algorithm_without_one_centre_has_its_solution():
    es = begun(algo=neuro.algo.OpenAIES(average=0.9), sigma=None)
    before = es.state_dict()["tensors"]
    halved(es.module)
    after = es.state_dict()["tensors"]
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_every_rank_takes_those_of_rank_0():
    def run(world: World) -> Tensor:
        es = begun(world=world)
        if world.rank == 0:
            halved(es.module)
        es.step(fitness, *data())
        return es.centre

    alone = begun()
    halved(alone.module)
    alone.step(fitness, *data())
    assert all(torch.equal(centre, alone.centre) for centre in on_ranks(2, run))


@pytest.mark.parametrize("writer", [0, 1])
def test_ranks_stay_equal_where_a_module_is_the_centre_and_one_rank_writes_to_it(writer, monkeypatch):
    """A large module's memory is the centre, on several ranks too; rank 0's numbers count."""
    monkeypatch.setattr("neuro_cli.core.layout.LARGE", 64)

    def run(writes: bool, world: World | None = None) -> Tensor:
        with seeded(1):
            module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
        es = neuro.Evolution(
            module, population=8, sampler="low_rank", threads=1, optimizer=torch.optim.SGD, world=world, distribution="replicated"
        )
        x = torch.linspace(-1, 1, 24).view(4, 6)
        for generation in range(3):
            es.step(lambda member, x, y: -(member(x)[:, 0] - y).square(), x, torch.ones(4))
            if writes and generation == 0:
                with torch.no_grad():
                    module[0].weight.mul_(0.5)
        assert ParameterLayout(module).joined(module) is not None
        return es.centre

    alone = run(writer == 0)
    assert not torch.equal(alone, run(writer != 0))
    for centre in on_ranks(2, lambda world: run(world.rank == writer, world)):
        assert torch.equal(centre, alone)


@pytest.mark.parametrize("algo", [neuro.algo.Genetic(parents=2), neuro.algo.OpenAIES(average=0.9)], ids=["parents", "average"])
def test_an_algorithm_without_one_centre_refuses_them(algo):
    es = begun(algo=algo, sigma=None)
    halved(es.module)
    with pytest.raises(neuro.ConfigError, match="cannot take parameters that a script wrote between steps"):
        es.step(fitness, *data())


def test_a_parameter_that_is_gone_is_one_line():
    es = begun()
    es.module.body[0] = nn.Identity()
    with pytest.raises(neuro.ConfigError, match=r"body.0.weight is no longer a parameter of shape \(9, 6\)"):
        es.step(fitness, *data())


OTHERS = {
    "shift of Net": lambda module: module.shift.fill_(2.0),
    "gain of Net": lambda module: setattr(module, "gain", 3.0),
    "body.2 (Linear)": lambda module: module.body[2].bias.requires_grad_(False),
    "body.1 (Tanh)": lambda module: module.body[1].register_forward_hook(lambda _, __, made: 2 * made),
    "body.1 (ReLU)": lambda module: module.body.__setitem__(1, nn.ReLU()),
    "forward of Net": lambda module: setattr(module, "forward", lambda x: x),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_line_names_what_members_keep_as_it_was_given(name, caplog):
    es = begun()
    OTHERS[name](es.module)
    for _ in range(2):
        es.step(fitness, *data())
    assert caplog.text.count(f"module: {name} changed after the first step") == 1


def test_a_change_behind_another_one_is_named_too(caplog):
    es = begun()
    es.module.body[1].register_forward_hook(lambda *_: None)
    es.step(fitness, *data())
    es.module.shift.fill_(2.0)
    es.step(fitness, *data())
    assert "module: shift of Net changed" in caplog.text


def test_a_parameter_that_is_no_longer_shared_is_named(caplog):
    with seeded(0):
        net = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3))
    net[1].weight = net[0].weight
    es = neuro.Evolution(net, population=8, threads=1)
    es.step(fitness, *data())
    assert not warnings_of(caplog)
    net[1].weight = nn.Parameter(net[0].weight.detach().clone())
    es.step(fitness, *data())
    assert "module: 1 (Linear) changed after the first step" in caplog.text


def test_buffers_of_a_scripted_module_are_compared_and_its_wrappers_are_not(caplog):
    with seeded(0):
        module = torch.jit.script(Net())
    es = neuro.Evolution(module, population=8, threads=1)
    es.step(fitness, *data())
    caplog.clear()
    es.step(fitness, *data())
    assert not warnings_of(caplog)
    es.module.shift.fill_(2.0)
    es.step(fitness, *data())
    assert [said.partition(" changed")[0] for said in warnings_of(caplog)] == ["module: shift of RecursiveScriptModule"]


def test_modes_and_statistics_of_a_test_are_no_change(caplog):
    es = begun()
    with caplog.at_level(logging.WARNING):
        es.module(data()[0])  # moves batch norm's statistics
        es.module.eval()
        es.step(fitness, *data())
    assert not warnings_of(caplog)


def test_what_a_copy_lacks_is_no_change(caplog):
    exported = torch.export.export(nn.Sequential(nn.Linear(3, 2)), (torch.ones(4, 3),)).module()
    es = neuro.Evolution(exported, population=4)
    for _ in range(2):
        es.step(lambda member: -float(member(torch.ones(4, 3)).square().mean()))
    assert "changed after the first step" not in caplog.text
