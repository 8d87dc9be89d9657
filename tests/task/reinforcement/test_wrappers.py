"""Environments as they come: spaces that are no Box, wrappers, frames, vectors of rewards, episodes without a limit."""

import re
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from support.made_data import load
from torch import nn

from neuro_cli.core.errors import ConfigError, UserError
from neuro_cli.factory.construct import ConstructionError, construct
from neuro_cli.task.reinforcement import Reinforcement, environment, simulators
from neuro_cli.task.reinforcement.episodes import EpisodeOutcome
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.task import plan_of
from neuro_cli.task.reinforcement.wrappers import boxed, wrappers_of

gymnasium = pytest.importorskip("gymnasium")
import stub_environments  # noqa: E402
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple  # noqa: E402
from gymnasium.wrappers import ClipReward, FlattenObservation, FrameStackObservation, TimeAwareObservation  # noqa: E402

REINFORCEMENT = "neuro_cli.task.reinforcement.Reinforcement"
SPACES = {
    "dict": Dict({"b": Box(-1.0, 1.0, (2, 2)), "a": Discrete(3)}),
    "tuple": Tuple((Discrete(2), Box(-1.0, 1.0, (2,), np.float64))),
    "discrete": Discrete(5, start=2),
    "multi_discrete": MultiDiscrete([2, 3]),
    "multi_binary": MultiBinary(4),
}


def loaded(**settings) -> Reinforcement:
    return load(Reinforcement(**{"id": "Spacious-v0", "normalise": False} | settings))


def policy_for(task: Reinforcement) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Flatten(), nn.Linear(task.spaces.inputs, task.spaces.outputs))


def play(task: Reinforcement, policy: nn.Module, seeds: list[int]) -> EpisodeOutcome:
    return task.play(plan_of(np.array([seeds])), policies_of(policy, len(seeds), task.spaces.shape), task.normaliser)


def plain(environment, policy: nn.Module, seed: int) -> tuple[float, int]:
    """Return what a loop of one's own gives with the greatest output as action: return and steps."""
    observation, total, steps, over = environment.reset(seed=seed)[0], 0.0, 0, False
    while not over:
        with torch.no_grad():
            choice = policy(torch.as_tensor(np.asarray(observation, np.float32))[None]).argmax()
        observation, reward, terminated, truncated, _ = environment.step(np.int64(choice))
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return total, steps


@pytest.mark.parametrize("name", SPACES)
def test_observations_of_any_space_are_flattened_as_gymnasium_does(name):
    space = SPACES[name]
    task = loaded(options={"seen": space})
    flat = FlattenObservation(gymnasium.make("Spacious-v0", seen=space))
    assert task.spaces.shape == flat.observation_space.shape
    assert np.array_equal(task.maker.make().reset(seed=7)[0], flat.reset(seed=7)[0])
    assert play(task, policy_for(task), [7]).steps[0] == stub_environments.STEPS


def test_equal_spaces_are_flattened_in_one_order():
    """gymnasium's own order is that of writing, unless the space is written as a plain dict."""
    parts = {"b": Box(-1.0, 1.0, (2,)), "a": Discrete(3)}
    written = [Dict(parts), Dict(**parts), Tuple([Dict(list(parts.items()))])]
    first = [loaded(options={"seen": space}).maker.make().reset(seed=7)[0] for space in written]
    assert all(sorted(one[:3]) == [0, 0, 1] for one in first), "the choice among three comes first"


@pytest.mark.parametrize(
    ("space", "outputs", "row", "action"),
    [
        (MultiDiscrete([2, 3]), 5, [0.1, 0.4, -1.0, -3.0, -2.0], [1, 0]),
        (MultiDiscrete([[2], [3]], start=[[5], [-1]]), 5, [2.0, 0.0, 0.0, 0.0, 9.0], [[5], [1]]),
        (MultiBinary(3), 3, [0.5, -0.5, 0.0], [1, 0, 0]),
        (MultiBinary((2, 2)), 4, [1.0, -1.0, 2.0, -2.0], [[1, 0], [1, 0]]),
        (Box(-1.0, 2.0, (2, 2)), 4, [0.5, -9.0, 9.0, 0.0], [[0.5, -1.0], [2.0, 0.0]]),
        (Box(-1.0, 2.0, ()), 1, [0.5], 0.5),
    ],
)
def test_actions_of_any_space_come_from_the_outputs(space, outputs, row, action):
    task = loaded(options={"acts": space})
    assert task.spaces.outputs == outputs
    policy = nn.Sequential(nn.Flatten(), nn.Linear(task.spaces.inputs, outputs))
    nn.init.zeros_(policy[1].weight)
    policy[1].bias.data = torch.tensor(row)
    stub_environments.Spacious.TAKEN.clear()
    assert play(task, policy, [1]).returns[0] == stub_environments.STEPS
    taken = stub_environments.Spacious.TAKEN[-1]
    assert np.shape(taken) == np.shape(action)
    assert np.array_equal(taken, action)


@pytest.mark.parametrize("asked", [True, None])
def test_scaled_actions_reach_the_bounds_of_the_box(asked):
    space = Box(np.array([0.0, -10.0], np.float32), np.array([500.0, 0.0], np.float32))
    task = loaded(options={"acts": space}, scale_actions=asked)
    policy = nn.Sequential(nn.Flatten(), nn.Linear(task.spaces.inputs, 2))
    nn.init.zeros_(policy[1].weight)
    policy[1].bias.data = torch.tensor([0.0, 3.0])
    play(task, policy, [1])
    assert np.allclose(stub_environments.Spacious.TAKEN[-1], [250.0, 0.0])
    with pytest.raises(ConfigError, match=r"^task\.scale_actions=True: needs actions in a Box with bounds, not Discrete"):
        _ = Reinforcement(id="CartPole-v1", scale_actions=True).spaces
    endless = Box(-np.inf, np.inf, (2,))
    with pytest.raises(ConfigError, match=r"^task\.scale_actions=True: .*not numbers without bounds"):
        _ = Reinforcement(id=task.id, options={"acts": endless}, scale_actions=True).spaces
    for free in (endless, Box(-3e38, 3e38, (2,)), Discrete(3)):
        assert not Reinforcement(id=task.id, options={"acts": free}, scale_actions=None).spaces.scaled


def test_wrappers_and_frames_are_those_of_gymnasium():
    wrappers = [TimeAwareObservation, partial(ClipReward, max_reward=0.25)]
    task = loaded(id="CartPole-v1", wrappers=wrappers, frame_stack=3, max_steps=40)
    assert task.spaces.shape == (3, 5)
    policy = policy_for(task)
    outcome = play(task, policy, [5, 6])
    environment = ClipReward(TimeAwareObservation(gymnasium.make("CartPole-v1", max_episode_steps=40)), max_reward=0.25)
    environment = FrameStackObservation(environment, 3)
    for place, seed in enumerate([5, 6]):
        assert (outcome.returns[place], outcome.steps[place]) == plain(environment, policy, seed)


def test_a_vector_of_rewards_is_weighed():
    task = loaded(id="RewardVector-v0", reward_weights=[2.0, 0.5])
    assert play(task, policy_for(task), [1]).returns[0] == 1.5 * stub_environments.STEPS
    with pytest.raises(ConfigError, match=r"^task\.reward_weights=\[1\.0\]: a reward has the shape \(2,\), so as many weights"):
        loaded(id="RewardVector-v0", reward_weights=[1.0])


def test_an_environment_without_a_limit_ends_by_itself_or_with_a_line(monkeypatch):
    task = loaded(id="Endless-v0")
    assert play(task, policy_for(task), [1]).steps[0] == 60
    monkeypatch.setattr(simulators, "ENDLESS", 100)
    task = loaded(id="Endless-v0", options={"steps": 0})
    with pytest.raises(ConfigError, match=r"^task\.max_steps=None: Endless-v0 did not end an episode in 100 steps, so a limit"):
        play(task, policy_for(task), [1])


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"wrappers": [3]}, r"^task\.wrappers=\[3\]: must be a list of package\.Wrapper or \{_target_: package\.Wrapper"),
        ({"wrappers": [len]}, r"^task\.wrappers\.0=len: it does not take this environment: "),
        ({"wrappers": [type]}, r"^task\.wrappers\.0=type: must return an environment, not type"),
        ({"wrappers": ["ClipReward"]}, r"^task\.wrappers\.0=ClipReward: must be package\.function$"),
        ({"wrappers": ["gymnasium.wrappers.Clip"]}, r"^task\.wrappers\.0=gymnasium\.wrappers\.Clip: cannot be imported: "),
        ({"reward_weights": ["a"]}, r"^task\.reward_weights=\['a'\]: must be a list of numbers$"),
        ({"frame_stack": 2, "simulator": "direct"}, r"^task\.simulator=direct: wrappers, frames and weights need auto"),
    ],
)
def test_bad_settings_are_one_line(settings, line):
    with pytest.raises(ConfigError, match=line):
        _ = Reinforcement(id="CartPole-v1", **settings).spaces


def test_a_space_that_gymnasium_cannot_flatten_asks_for_a_wrapper():
    class Mission(gymnasium.Space):
        """Space of a package, as MiniGrid has one for its texts."""

    environment = gymnasium.make("CartPole-v1")
    spaces = {"mission": Mission(), "image": Box(0.0, 1.0, (2,)), "direction": Discrete(4)}
    environment.observation_space = Dict(spaces)
    line = r"^task\.wrappers: gymnasium cannot flatten mission \(Mission\) of the observations: add (\{.*\}), or another"
    with pytest.raises(UserError, match=line) as caught:
        boxed(environment)
    found = re.search(line, str(caught.value))
    assert found is not None
    (wrapper,) = wrappers_of([given(yaml.safe_load(found[1]))])  # as it is typed
    assert boxed(wrapper(environment)).observation_space.shape == (6,)
    for other in (Dict(mission=Mission()), Tuple([Discrete(2), Mission()])):
        environment.observation_space = other
        with pytest.raises(UserError, match=r"\(Mission\) of the observations: add a wrapper that makes numbers of them$"):
            boxed(environment)


def given(node: dict[str, object]) -> object:
    """Return what a config's node in task.wrappers makes."""
    return construct({"_target_": REINFORCEMENT, "id": "x", "wrappers": [node]}).maker.wrapping.wrappers[0]


def test_wrappers_need_no_partial():
    typed = ["gymnasium.wrappers.TimeAwareObservation", {"_target_": "gymnasium.wrappers.ClipReward", "max_reward": 0.25}]
    node = {"_target_": REINFORCEMENT, "id": "CartPole-v1", "wrappers": typed}
    marked = [typed[0], {**typed[1], "_partial_": True}]
    made = [load(construct({**node, "wrappers": each})) for each in (typed, marked)]
    first, second = (task.maker.make() for task in made)
    assert str(first) == str(second)
    assert str(first).startswith("<ClipReward<TimeAwareObservation<")
    with pytest.raises(ConstructionError) as caught:  # an argument that it does not have stays an error of its own
        construct({**node, "wrappers": [{**typed[1], "most": 1}]})
    assert "unexpected keyword argument 'most'" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("identifier", "said"),
    [
        ("no_such_zoo:Room-v0", "no module no_such_zoo is installed or in this folder: install the package that has it"),
        ("no_such_zoo.envs:Room-v0", "no module no_such_zoo is installed or in this folder: install the package that has it"),
        ("needy_zoo:Room-v0", "cannot be made without the module no_such_need: install the package that has it"),
        ("Needy-v0", "cannot be made without the module no_such_need: install the package that has it"),
        ("Unmatched-v0", r"cannot be made: AssertionError \(test_wrappers.py:"),
    ],
)
def test_a_module_that_is_absent_is_named_with_what_to_do(identifier, said, tmp_path, monkeypatch):
    (tmp_path / "needy_zoo.py").write_text("import no_such_need\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))

    def unmatched():
        raise AssertionError

    gymnasium.register("Needy-v0", entry_point="needy_zoo:Room")
    gymnasium.register("Unmatched-v0", entry_point=unmatched)
    with pytest.raises(ConfigError, match=rf"task.id={identifier}: {said}") as raised:
        loaded(id=identifier)
    assert "Check whether" not in str(raised.value)


def test_an_absent_package_that_is_known_has_its_command(monkeypatch):
    monkeypatch.setattr(environment, "HOMES", {"Absent-": "no_such_zoo.envs"})
    with pytest.raises(ConfigError, match="pip install no-such-zoo"):
        loaded(id="no_such_zoo.envs:Absent-v0")


def test_a_warning_of_an_environment_is_one_line_without_colours(monkeypatch, caplog, recwarn):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    for version in (1, 2):
        gymnasium.register(f"OldPole-v{version}", entry_point=gymnasium.spec("CartPole-v1").entry_point, max_episode_steps=20)
    task = loaded(id="OldPole-v1")
    play(task, policy_for(task), [1, 2])
    said = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    line = "task.id=OldPole-v1: The environment OldPole-v1 is out of date. You should consider upgrading to version `v2`."
    assert said == [line]
    assert not recwarn.list


@pytest.mark.parametrize("identifier", ["Pong-v5", "Breakout-v4", "Zoo-v0"])
def test_a_version_in_common_makes_no_names_alike(identifier):
    with pytest.raises(ConfigError, match=f"task.id={identifier}: no such environment; environments of a package"):
        loaded(id=identifier)
