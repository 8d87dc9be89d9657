"""Episodes of real environments: the same whatever ran before or beside them, by seeds that are addresses."""

import sys

import numpy as np
import pytest
import torch
from support.made_data import load
from torch import nn

from neuro_cli.cli.options.groups import option_of
from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.model.mlp_policy import MLPPolicy
from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.episodes import EpisodeOutcome
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import FRESH, plan_of

pytest.importorskip("gymnasium")

NEEDS = {"lunar_lander": "Box2D", "bipedal_walker": "Box2D", "hopper": "mujoco", "half_cheetah": "mujoco", "ant": "mujoco"}


def task_of(option: str, **settings) -> Reinforcement:
    node = option_of("task", option) | settings
    node.pop("_target_")
    return load(Reinforcement(**node))


def cart_pole(**settings) -> Reinforcement:
    return load(Reinforcement(**({"id": "CartPole-v1"} | settings)))


def policy_for(task: Reinforcement) -> nn.Module:
    torch.manual_seed(2)
    return MLPPolicy(**task.model_arguments(None), hidden=[8])


def play(task: Reinforcement, seeds: list[int], together: int) -> EpisodeOutcome:
    task.environments = together
    while not task._stages.empty():
        task._stages.get().close()
    plan = plan_of(np.array([seeds]))
    return task.play(plan, policies_of(policy_for(task), len(seeds), task.spaces.shape), task.normaliser)


@pytest.mark.parametrize("option", NEEDS)
def test_an_episode_depends_on_its_seed_only(option):
    """Alone in new environments, and in ones that others used before, in another order: the same bits."""
    pytest.importorskip(NEEDS[option])
    task = task_of(option, max_steps=80)
    seeds = [11, 5, 23, 5]
    one_by_one = [play(task, [seed], 1) for seed in seeds]
    for together, order in ((1, [2, 0, 1, 3]), (3, [3, 1, 0, 2]), (4, [0, 1, 2, 3])):
        outcome = play(task, [seeds[place] for place in order], together)
        for row, place in enumerate(order):
            alone = one_by_one[place]
            assert (outcome.returns[row], outcome.steps[row]) == (alone.returns[0], alone.steps[0])
            assert np.array_equal(outcome.sums[row], alone.sums[0])
    assert len({float(alone.returns[0]) for alone in one_by_one}) == 3


def test_seeds_are_addresses_and_those_of_the_test_are_others():
    task = cart_pole()
    seeds = task.batch(7, 0, 6).targets
    assert torch.equal(task.batch(7, 2, 5).targets, seeds[2:5])
    assert not torch.equal(task.batch(8, 0, 6).targets, seeds)
    assert seeds.max() < FRESH
    played = []
    task.play = lambda plan, policies, normaliser: (
        played.extend(plan.seeds) or EpisodeOutcome(*[np.ones(len(plan.seeds))] * 2, None)
    )
    sums = [task.evaluate_chunk(policy_for(task), chunk) for chunk in range(task.evaluation_chunks)]
    assert len(set(played)) == len(played) == 100
    assert min(played) >= FRESH
    assert task.summarise(np.sum(sums, axis=0))["test_episodes"] == 100


def test_returns_steps_and_observations_are_counted():
    """CartPole gives 1 a step; all that it was in is in the sums."""
    task = cart_pole(max_steps=30)
    outcome = play(task, list(range(9)), 4)
    assert np.array_equal(outcome.returns, outcome.steps)
    assert 5 < outcome.steps.min() < outcome.steps.max() <= 30
    scores = task.columns(outcome)
    assert scores.shape == (9, len(task.score_names)) == (9, 10)
    task.absorb(0, scores.mean(axis=0), members=9)
    assert task.statistics.count == pytest.approx(outcome.steps.sum())
    np.testing.assert_allclose(task.statistics.mean, outcome.sums[:, :4].sum(axis=0) / outcome.steps.sum(), rtol=1e-12)
    assert task.measures(scores.mean(axis=0), 9, 2.0) == {
        "episode_length": pytest.approx(outcome.steps.mean()),
        "environment_steps": outcome.steps.sum(),
        "steps_per_second": pytest.approx(outcome.steps.sum() / 2),
    }


def test_environments_that_raised_are_closed_and_not_used_again(monkeypatch):
    """Even those whose close fails then; the error is the first one."""
    ended = []

    class Stage:
        def play(self, *_):
            raise RuntimeError("the simulator fell over")

        def close(self):
            ended.append(self)
            raise OSError("it cannot be closed either")

    task = cart_pole()
    monkeypatch.setattr(task, "stage", Stage)
    for tries in (1, 2):
        with pytest.raises(RuntimeError, match="the simulator fell over"):
            task.play(plan_of(np.array([[1]])), policies_of(policy_for(task), 1, task.spaces.shape), None)
        assert len(set(ended)) == tries


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"id": "LunarLender-v3"}, r"^task\.id=LunarLender-v3: no such environment; did you mean .*LunarLander-v3"),
        ({"id": "ALE/Nothing-v9"}, r"^task\.id=ALE/Nothing-v9: no such environment; the package ale_py has it: task\.id=ale_py:"),
        ({"id": "ale/pong-v5"}, r"^task\.id=ale/pong-v5: no such environment; .* task\.id=ale_py:ALE/Pong-v5$"),
        ({"id": "gymnasium:pendulum-v1"}, r"no such environment; did you mean gymnasium:Pendulum-v1"),
        ({"id": "stub_environments:Tracs-v0"}, r"no such environment; did you mean stub_environments:Traces-v0\?$"),
        ({"id": "stub_environments:LunarLandr-v3"}, r"no such environment; the import of stub_environments registers none of "),
        (
            {"id": "Nowhere/Xyzzyx-v5"},
            r"no such environment; environments of a package, .* begin with its name: ale_py:ALE/Pong-v5$",
        ),
        ({"id": "Pendulum"}, r"^task\.id=Pendulum: must have a version; the newest is Pendulum-v1$"),
        ({"id": "LunarLander-v2"}, r"^task\.id=LunarLander-v2: cannot be made: "),
        ({"id": "CartPole-v1", "options": {"gravitas": 3}}, r"^task\.id=CartPole-v1: cannot be made: .*gravitas"),
    ],
)
def test_bad_settings_end_with_one_line(settings, line):
    with pytest.raises(ConfigError, match=line):
        _ = Reinforcement(**settings).spaces


@pytest.mark.parametrize(("missing", "option"), [("Box2D", "lunar_lander"), ("mujoco", "hopper"), ("gymnasium", "ant")])
def test_what_is_not_installed_is_named_with_its_remedy(missing, option, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("gymnasium.envs.box2d", "gymnasium.envs.mujoco"))]:
        monkeypatch.delitem(sys.modules, name)  # imported once, they would not miss it any more
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserError, match=r"^task\.id=.*pip install '\.\[rl\]'") as caught:
        _ = task_of_nothing(option).spaces
    assert "\n" not in str(caught.value)


def task_of_nothing(option: str) -> Reinforcement:
    node = option_of("task", option)
    node.pop("_target_")
    return Reinforcement(**node)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (nn.Linear(4, 3), r"^model: it has 3 outputs, task\.id=CartPole-v1 needs 2 \(one for each choice\)$"),
        (nn.Linear(5, 2), r"^model: it does not take observations of 4 numbers: "),
        (nn.Sequential(nn.Linear(4, 2), nn.Unflatten(1, (1, 2))), r"^model: its output for 1 observations is 1x1x2"),
        (nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)), r"^model: batch norm would mix episodes"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(policy, line):
    with pytest.raises(UserError, match=line):
        cart_pole().misfit(policy)


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ({"gradient": True}, r"^algo=sgd: a return has no gradient"),
        ({"layout": "per_example"}, r"^layout=per_example: .*task\.common_episodes=false"),
        ({"precision": "bfloat16"}, r"^precision=bfloat16: "),
    ],
)
def test_what_an_episode_cannot_serve_is_refused(use, line):
    task = Reinforcement(id="CartPole-v1")
    usual = {"layout": "shared_batch", "precision": "float32", "gradient": False}
    task.refuse(**usual)
    with pytest.raises(UserError, match=line):
        task.refuse(**(usual | use))


@pytest.mark.parametrize("after", [None, 9])
def test_a_step_bonus_counts_in_training_only_and_after_the_first_steps(after):
    plain, bonus = cart_pole(), cart_pole(step_bonus=-0.5, **({} if after is None else {"bonus_after": after}))
    policy = policy_for(plain)
    batch = plain.batch(0, 0, 12)
    one, other = (task.example_scores(policy, batch) for task in (plain, bonus))
    assert one[:, 1].min() < 9 < one[:, 1].max()  # episodes shorter and longer than that
    assert torch.equal(other[:, 0], one[:, 0] - 0.5 * (one[:, 1] - (after or 0)).clamp(min=0))
    assert torch.equal(other[:, 1:], one[:, 1:])
    assert np.array_equal(plain.evaluate_chunk(policy, 0), bonus.evaluate_chunk(policy, 0))


@pytest.mark.parametrize("simulator", ["gymnasium", "direct"])
def test_the_penalty_of_a_fall_counts_by_its_factor_in_training_only(simulator):
    fall = {"sutton_barto_reward": True}  # -1 for the step that ends an episode, else 0
    tasks = {factor: cart_pole(options=fall, simulator=simulator, end_penalty=factor) for factor in (1.0, 0.25, 0.0)}
    policy, plain = policy_for(tasks[1.0]), tasks[1.0]
    scores = {factor: task.example_scores(policy, plain.batch(0, 0, 3)) for factor, task in tasks.items()}
    for factor, task in tasks.items():
        assert scores[factor][:, 0].tolist() == [-factor] * 3
        assert torch.equal(scores[factor][:, 1:], scores[1.0][:, 1:])
        assert task.evaluate_chunk(policy, 0)[0] == -10.0
    cut = cart_pole(options=fall, simulator=simulator, max_steps=2)
    assert not cut.example_scores(policy, plain.batch(0, 0, 3))[:, 0].any()  # a limit ends them


@pytest.mark.parametrize(
    ("identifier", "options", "bonus"),
    [
        ("Hopper-v5", {}, -1.0),
        ("Walker2d-v5", {"healthy_reward": 0.5}, -0.5),
        ("HalfCheetah-v5", {}, 0.0),
        ("InvertedDoublePendulum-v5", {}, 0.0),  # to stand is its task
        ("CartPole-v1", {}, 0.0),
    ],
)
def test_without_a_step_bonus_a_robot_is_trained_for_its_way_alone(identifier, options, bonus):
    if identifier != "CartPole-v1":
        pytest.importorskip("mujoco")
    task = Reinforcement(identifier, step_bonus=None, options=options)
    assert task.step_bonus == bonus
    assert Reinforcement(identifier, options=options).step_bonus == 0.0


@pytest.mark.parametrize(
    ("identifier", "simulators"), [("CartPole-v1", set()), ("HalfCheetah-v5", {"mujoco"}), ("LunarLander-v3", {"Box2D"})]
)
def test_returns_name_the_packages_whose_versions_decide_them(identifier, simulators):
    for module in simulators:
        pytest.importorskip(module)
    packages = Reinforcement(identifier).packages
    assert packages[0] == "gymnasium"
    assert set(packages) & {"mujoco", "Box2D"} == simulators
