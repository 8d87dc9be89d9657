"""Members scored by episodes: the same bits in any company, by any split, and what the definition says."""

import numpy as np
import pytest
import torch
from support.configs import composed
from support.thread_ranks import on_ranks
from torch import nn

from neuro_cli.core.errors import CandidateError, ConfigError
from neuro_cli.fabric.base import SingleProcess
from neuro_cli.fabric.simulated import SimulatedWorld
from neuro_cli.runner.build import Parts, build
from neuro_cli.runner.options import Options
from neuro_cli.scoring.episodes import EpisodeScorer

pytest.importorskip("gymnasium")

COMMON = (
    "task=lunar_lander", "task.id=CartPole-v1", "task.episodes=3", "task.max_steps=40", "task.environments=5",
    "model=mlp_policy", "model.hidden=[7]", "population=10", "threads=1", "generations=4", "algo.sigma=0.5",
)  # fmt: skip


class Plain(nn.Module):
    """The same as a chain of layers, in a form that is not known for one."""

    def __init__(self, inputs: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, 7), nn.Linear(7, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(torch.tanh(self.first(x)))
        return made


def parts_of(*overrides: str) -> Parts:
    return build(Options(composed(*COMMON, *overrides)), SingleProcess())


def scores(parts: Parts, members: range, part: tuple[int, int] | None = None) -> np.ndarray:
    scorer = parts.distribution.job.scorer
    assert isinstance(scorer, EpisodeScorer)
    return scorer.scores(parts.algo.ask(3), 3, members, part)


@pytest.mark.parametrize("model", ["mlp_policy", "plain"])
def test_scores_do_not_depend_on_the_company(model, monkeypatch):
    monkeypatch.syspath_prepend(str(__file__).rsplit("/", 1)[0])
    overrides = ["model._target_=test_episodes.Plain", "~model.hidden", "~model.activation", "~model.last_scale", "~model.gain"]
    parts = parts_of("task.id=Pendulum-v1", *(overrides if model == "plain" else []))
    whole = scores(parts, range(10))
    for low, high in ((0, 1), (3, 8), (9, 10)):
        assert np.array_equal(scores(parts, range(low, high)), whole[low:high])
    parts.task.environments = 2
    assert np.array_equal(scores(parts, range(10)), whole)
    proposal = parts.algo.ask(3)
    three = EpisodeScorer(parts.distribution.job.scorer.settings, proposal.bases[0], held=3 * 4 * parts.layout.size)
    assert np.array_equal(three.scores(proposal, 3, range(10)), whole)
    np.testing.assert_allclose(scores(parts, range(10), (0, 1)) + scores(parts, range(10), (1, 3)), whole, rtol=1e-12)
    assert len(np.unique(whole[:, 0])) == 10


@pytest.mark.parametrize("algo", [(), ("algo=genetic", "algo.sigma=0.5", "algo.parents=3"), ("algo=pgpe", "algo.sigma=0.5")])
def test_scores_are_those_of_members_by_definition(algo):
    parts = parts_of(*algo)
    for generation in range(2):
        parts.distribution.step(generation)
    sampler, task, proposal = parts.distribution.job.sampler, parts.task, parts.algo.ask(3)
    made = scores(parts, range(10))
    for member in range(10):
        direction, sign = sampler.side(member)
        step = proposal.scale * sign * sampler.explicit(3, direction)
        base = proposal.bases[proposal.parent_of(member)]
        flat = base if member in proposal.frozen else base + step
        module = nn.Sequential(nn.Flatten(), nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 2))
        nn.utils.vector_to_parameters(flat.clone(), module.parameters())
        wanted = task.score(module, task.batch(3, 0, 3))
        np.testing.assert_allclose(made[member], wanted, rtol=1e-4, atol=1e-3)


def test_own_episodes_are_shared_by_the_sides_of_a_direction_only(monkeypatch):
    parts = parts_of("task.common_episodes=false")
    seen = []
    play = parts.task.play
    monkeypatch.setattr(parts.task, "play", lambda plan, *rest: seen.append(plan) or play(plan, *rest))
    scores(parts, range(10))
    scores(parts, range(3, 6))
    seeds = seen[0].seeds.reshape(10, 3)
    assert np.array_equal(seeds[0::2], seeds[1::2])
    assert len(np.unique(seeds)) == 15
    assert np.array_equal(seen[1].seeds.reshape(3, 3), seeds[3:6])
    common = parts_of()
    monkeypatch.setattr(common.task, "play", lambda plan, *rest: seen.append(plan) or play(plan, *rest))
    scores(common, range(10))
    assert len(np.unique(seen[2].seeds)) == 3


@pytest.mark.parametrize("method", ["replicated", "semi_updates-local"])
def test_statistics_are_the_same_on_all_ranks_and_those_of_one(method):
    """With shaping inside each rank too: no fitness is gathered there, sums of the columns are."""
    name, _, shaping = method.partition("-")
    local = ["distribution.ranks_shaping=local"] if shaping else []
    config = composed(*COMMON, "population=12", f"distribution={name}", *local)

    def run(world) -> tuple[np.ndarray, ...]:
        parts = build(Options(config), world)
        parts.distribution.step(0)
        statistics = parts.task.statistics
        return np.array([statistics.count]), statistics.mean, statistics.squares

    one = run(SingleProcess())
    assert one[0] > 12 * 3 * 5
    for ranks in (2, 3):
        found = on_ranks(ranks, run)
        for mine in found:
            assert all(np.array_equal(a, b) for a, b in zip(mine, found[0], strict=True))
            for value, wanted in zip(mine, one, strict=True):
                if shaping:
                    np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-9)
                else:
                    assert np.array_equal(value, wanted)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("task.episodes=1", r"^ranks=2: must be <= task\.episodes=1$"),
        (
            "task.common_episodes=false",
            r"^task\.common_episodes=False: distribution=data_parallel splits what all members share$",
        ),
    ],
)
def test_data_parallel_splits_episodes_that_all_members_share(override, line):
    with pytest.raises(ConfigError, match=line):
        build(Options(composed(*COMMON, "distribution=data_parallel", override)), SimulatedWorld(2, 0))


def test_a_policy_that_gives_no_number_ends_the_run(monkeypatch):
    parts = parts_of()
    parts.algo.centre[:] = torch.nan
    with pytest.raises(CandidateError, match="return of member 0 in generation 1 is nan"):
        parts.distribution.step(0)
    assert parts.task.statistics.count == 0


class Dropping(Plain):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(nn.functional.dropout(x, 0.2))


class Remembering(Plain):
    """Keeps its memory to itself."""

    def __init__(self, inputs: int = 4, outputs: int = 2) -> None:
        super().__init__(inputs, outputs)
        self.last_seen = torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = super().forward(x + self.last_seen)
        self.last_seen = x[-1]
        return made


class Scaling(Plain):
    """Keeps a table that is the same for all policies."""

    table = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.table = torch.full((4,), 0.5) if self.table is None else self.table
        return super().forward(x * self.table)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Dropping", "an episode draws random numbers (torch) that no seed of its own reaches"),
        ("Remembering", "model: last_seen of Remembering changes in a step and passes from episode to episode"),
        ("Scaling", None),
        ("Plain", None),
    ],
)
def test_what_makes_returns_depend_on_the_company_is_said(name, said, monkeypatch, caplog):
    monkeypatch.syspath_prepend(str(__file__).rsplit("/", 1)[0])
    parts = parts_of(
        f"model._target_=test_episodes.{name}", "~model.hidden", "~model.activation", "~model.last_scale", "~model.gain"
    )
    caplog.clear()
    for _ in range(2):
        scores(parts, range(4))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line for line in lines if said is None or not line.startswith(said)] == []
    assert len(lines) == (said is not None)
