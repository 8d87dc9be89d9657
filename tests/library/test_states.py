"""States are values: what a run does changes none that a caller holds, and nothing of the caller's is kept."""

import copy
from functools import partial
from typing import Any

import pytest
import torch
from support.configs import OF_ANY_FITNESS
from torch import Tensor, nn

from neuro_cli import Evolution
from neuro_cli.algo.base import PopulationAlgorithm, Proposal, State
from neuro_cli.algo.centre.torch_optimizer import ScheduledOptimizer
from neuro_cli.algo.ensemble_member import Member
from neuro_cli.algo.openai_es import OpenAIES
from neuro_cli.algo.seed_steps import SeedSteps
from neuro_cli.core.errors import ConfigError
from neuro_cli.core.layout import ParameterLayout
from neuro_cli.core.schedule import CONSTANT
from neuro_cli.library.named import option

ADAPTIVE = partial(OpenAIES, adapt={"sigma": "csa", "lr": "snr"}, average=0.5)
SUCCESS = partial(OpenAIES, adapt={"sigma": "psr"})
# with counts or norms beside what has the shape of a parameter, on the CPU
OPTIMIZERS = ("Adadelta", "Adafactor", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
OPTIMIZED = [partial(OpenAIES, optimizer=partial(getattr(torch.optim, name), lr=0.01)) for name in OPTIMIZERS]


def evolution(algo: Any) -> Evolution:
    """A new Evolution of a vector by an option's name, or by what makes an algorithm."""
    made = option("algo", algo, PopulationAlgorithm, 9) if isinstance(algo, str) else algo()
    return Evolution(torch.linspace(-1, 1, 6), algo=made, population=12, threads=1)


def gone_on(es: Evolution, generations: int = 3) -> Tensor:
    for _ in range(generations):
        es.tell(-es.ask().vectors.double().square().sum(1))
    return es.centre


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    tensors = zip(one["tensors"].items(), other["tensors"].items(), strict=True)
    return one["scalars"] == other["scalars"] and all(a == b and torch.equal(x, y) for (a, x), (b, y) in tensors)


@pytest.mark.parametrize("algo", [*OF_ANY_FITNESS, ADAPTIVE, SUCCESS, *OPTIMIZED])
def test_one_state_leads_to_the_same_bits_as_often_as_it_is_loaded(algo):
    with evolution(algo) as es, evolution(algo) as other:
        gone_on(es)
        state = es.state_dict()
        kept = copy.deepcopy(state)
        wanted = gone_on(es)
        assert same(state, kept)  # nothing live was given out
        for one, another in ((es, other), (other, es)):  # two at once, each of which steps where the other one stands
            for each in (one, another):
                each.load_state_dict(state)
            steps = [gone_on(each, 1) for _ in range(3) for each in (one, another)]
            assert all(torch.equal(centre, wanted) for centre in steps[-2:])
            assert same(state, kept)


class Keeping(OpenAIES):
    """A user's own, whose state is what it works on."""

    def start(self, centre: Tensor, layout: ParameterLayout, population: int, seed: int) -> None:
        super().start(centre, layout, population, seed)
        self.counts, self.seen = torch.zeros(1), [0]

    def ask(self, generation: int) -> Proposal:
        self.counts += 1
        self.seen.append(generation)
        return super().ask(generation)

    def state(self) -> State:
        own = super().state()
        return State(own.tensors | {"counts": self.counts}, own.scalars | {"seen": self.seen})

    def restore(self, state: State) -> None:
        super().restore(state)
        self.counts, self.seen = state.tensors["counts"], state.scalars["seen"]


def test_an_algorithm_that_keeps_and_gives_its_own_changes_no_state():
    with evolution(Keeping) as es:
        gone_on(es)
        state = es.state_dict()
        kept = copy.deepcopy(state)
        gone_on(es)
        assert same(state, kept)
        es.load_state_dict(state)
        gone_on(es)
        assert same(state, kept)


def member(staleness: int) -> Member:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(0.5)
    optimizer = ScheduledOptimizer(partial(torch.optim.Adam, lr=0.1), CONSTANT, list(net.parameters()))
    return Member(0, "net", net, optimizer, seed=1, staleness=staleness)


@pytest.mark.parametrize("staleness", [0, 2])
def test_a_member_of_an_ensemble_keeps_nothing_of_a_state(staleness):
    inputs = torch.linspace(-1, 1, 12).view(4, 3)

    def learn(one: Member, start: int) -> Tensor:
        for iteration in range(start, start + 3):
            logits = one.forward(iteration, inputs)
            one.learn(iteration, torch.cat([logits[:, :1], -logits[:, 1:]], 1))
        return torch.cat([parameter.detach().reshape(-1) for parameter in one.module.parameters()])

    first = member(staleness)
    learn(first, 0)
    if staleness:
        first.forward(3, inputs)  # in flight
    state = copy.deepcopy(first.state())
    kept = copy.deepcopy(state)
    ends = []
    for _ in range(2):
        again = member(staleness)
        again.restore(state)
        ends.append(learn(again, 3))
        assert all(torch.equal(tensor, kept.tensors[name]) for name, tensor in state.tensors.items())
    assert torch.equal(*ends)


def test_a_centre_of_steps_gives_a_copy():
    steps = SeedSteps(0.1)
    steps.start(torch.zeros(3), ParameterLayout(nn.Linear(3, 1, bias=False)), 4, 1)
    state = steps.state()
    steps.step([torch.ones(3)], b"")
    assert not state.tensors["centre"].any()


def test_a_state_says_with_what_it_was_stepped(caplog):
    """Adam's moments in SGD, or another sigma, would continue as another run."""

    def made(**options: Any) -> Evolution:
        return Evolution(nn.Linear(3, 1), population=8, threads=1, **{"optimizer": torch.optim.Adam, **options})

    def fitness(member: nn.Module) -> float:
        return -float(member.weight.square().sum())

    with made(sigma=0.1, lr=0.5) as es:
        es.step(fitness)
        state = es.state_dict()
    with made(optimizer=torch.optim.SGD, lr=0.5) as es, pytest.raises(ConfigError, match=r"optimizer=SGD: .* one of Adam"):
        es.load_state_dict(state)
    with made(sigma=0.1, lr=0.5) as es:
        es.load_state_dict(state)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    with made(sigma=0.2, lr=0.25) as es:
        es.load_state_dict(state)
        es.step(fitness)
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert lines == [
        "load_state_dict: sigma=0.2 from now on; the saved state had 0.1",
        "load_state_dict: lr=0.25 from now on; the saved state had 0.5",
    ]
    del state["optimizer"], state["steps"]  # an earlier version's
    caplog.clear()
    with made(sigma=0.3) as es:
        es.load_state_dict(state)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
