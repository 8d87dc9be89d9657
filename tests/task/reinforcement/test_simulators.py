"""Environments whose physics is driven directly against gymnasium's own steps: the same numbers, step by step."""

import logging
import sys

import numpy as np
import pytest

from neuro_cli.core.errors import ConfigError
from neuro_cli.task.reinforcement import classic_control, mujoco_batch
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.mujoco_batch import MujocoSimulator, stopwatch, untimed
from neuro_cli.task.reinforcement.policies import policies_of
from neuro_cli.task.reinforcement.simulators import GymnasiumSimulator, Simulator, simulator_of
from neuro_cli.task.reinforcement.task import Reinforcement, plan_of

pytest.importorskip("gymnasium")

WITHOUT_CONTACTS = {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0}
SERVED = [
    ("HalfCheetah-v5", {}, "mujoco"),
    ("HalfCheetah-v5", {"ctrl_cost_weight": 2, "exclude_current_positions_from_observation": False}, "mujoco"),
    ("Hopper-v5", {"healthy_reward": 0.7, "frame_skip": 2}, "mujoco"),
    ("Hopper-v5", {"terminate_when_unhealthy": False}, "mujoco"),
    ("Walker2d-v5", {}, "mujoco"),
    ("Swimmer-v5", {"forward_reward_weight": 3.5}, "mujoco"),
    ("Ant-v5", WITHOUT_CONTACTS, "mujoco"),
    ("CartPole-v1", {}, "gymnasium"),
    ("CartPole-v1", {"sutton_barto_reward": True}, "gymnasium"),
    ("Pendulum-v1", {"g": 9.81}, "gymnasium"),
    ("Acrobot-v1", {}, "gymnasium"),
]
SLOTS = 3


def actions_of(maker: EnvironmentFactory, steps: int) -> list:
    """Actions (SLOTS,) or (SLOTS, A) of every step, as policies give them."""
    spaces, rng = maker.spaces(), np.random.default_rng(1)
    if spaces.actions:
        return [rng.integers(0, spaces.actions, SLOTS).tolist() for _ in range(steps)]
    return list(rng.uniform(-1, 1, (steps, SLOTS, spaces.outputs)).astype(np.float32))


def walked(simulator: Simulator, maker: EnvironmentFactory, actions: list) -> list:
    """What a simulator gives: first observations, then of every step observations, rows that ended and totals."""
    inputs, seed = maker.spaces().inputs, SLOTS
    raw = np.empty((SLOTS, inputs))
    for slot in range(SLOTS):
        raw[slot] = simulator.begin(slot, slot)
    seen = [raw.copy()]
    slots = np.array([2, 0, 1])
    for act in actions:
        over = simulator.step(slots, act, raw)
        ends = [simulator.penalties[slots[row]] for row in over]
        seen.append((raw.copy(), over, [float(simulator.totals[slot]) for slot in slots], ends))
        for row in over:
            raw[row] = simulator.begin(int(slots[row]), seed)
            seed += 1
    simulator.close()
    return seen


@pytest.mark.parametrize(("identifier", "options", "package"), SERVED, ids=lambda value: value if isinstance(value, str) else "")
def test_every_step_has_the_bits_of_gymnasium(identifier, options, package):
    """More steps than an episode may have, so episodes end and begin in between."""
    pytest.importorskip(package)
    maker = EnvironmentFactory(identifier, 70, options)
    actions = actions_of(maker, 128)
    plain, direct = (walked(simulator_of(maker, SLOTS, False, choice), maker, actions) for choice in ("gymnasium", "direct"))
    np.testing.assert_array_equal(direct[0], plain[0])
    for number, (one, other) in enumerate(zip(plain[1:], direct[1:], strict=True)):
        np.testing.assert_array_equal(other[0], one[0], err_msg=f"step {number}")
        assert other[1:] == one[1:], f"step {number}"
    assert sum(len(over) for _, over, *_ in plain[1:]) >= SLOTS
    fines = {end for *_, ends in plain[1:] for end in ends}
    assert min(fines) < 0 or not (identifier.startswith("Walker") or "sutton_barto_reward" in options)


class Failing:
    """Policies that give no number in the second episode."""

    def __init__(self, inner):
        self.inner = inner

    def act(self, observations, which, places):
        made = self.inner.act(observations, which, places).copy()
        made[places == 1] = np.nan
        return made


def test_a_row_without_a_number_ends_alone():
    """One of two policies fails: its episode has no return, the other's has the bits that it has by itself."""
    pytest.importorskip("mujoco")
    torch = pytest.importorskip("torch")
    returns = {}
    for choice in ("gymnasium", "direct"):
        task = Reinforcement(id="Swimmer-v5", simulator=choice, max_steps=12, environments=4, normalise=False)
        task.load(input_shape=None, device=torch.device("cpu"), seed=0, batch_size=1)
        policy = torch.nn.Linear(8, 2)
        with torch.no_grad():
            policy.weight.fill_(0.1), policy.bias.fill_(0.0)
        alone = policies_of(policy, 3, task.spaces.shape)

        whole = task.play(plan_of(np.array([[1, 2, 3]])), alone, None).returns
        partly = task.play(plan_of(np.array([[1, 2, 3]])), Failing(alone), None).returns
        assert np.isnan(partly[1])
        assert np.array_equal(partly[[0, 2]], whole[[0, 2]])
        returns[choice] = whole
    assert np.array_equal(returns["gymnasium"], returns["direct"])


@pytest.mark.parametrize(
    ("identifier", "options", "reason"),
    [
        ("MountainCar-v0", {}, "only HalfCheetah, Hopper, "),
        ("CartPole-v1", {"render_mode": "rgb_array"}, "only HalfCheetah, Hopper, "),
        ("Ant-v5", {}, "contact forces count; task.options.contact_cost_weight=0"),
        ("LunarLander-v3", {}, "only HalfCheetah, Hopper, "),
        ("Hopper-v5", {"render_mode": "depth_array"}, "it draws pictures"),
    ],
)
def test_what_cannot_be_driven_directly_is_said(identifier, options, reason, caplog):
    pytest.importorskip("mujoco")
    pytest.importorskip("Box2D")
    maker = EnvironmentFactory(identifier, None, options)
    with pytest.raises(ConfigError, match=r"^task\.simulator=direct: ") as caught:
        simulator_of(maker, 2, False, "direct")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    caplog.set_level(logging.INFO)
    assert isinstance(simulator_of(maker, 2, False, "auto"), GymnasiumSimulator)
    assert reason in caplog.text


def test_an_older_mujoco_is_named(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setitem(sys.modules, "mujoco.batch", None)
    maker = EnvironmentFactory("Swimmer-v5", 5, {})
    with pytest.raises(
        ConfigError, match=r"^task\.simulator=direct: mujoco [\d.]+ is installed, and mujoco\.batch came with 4\.0"
    ):
        simulator_of(maker, 2, False, "direct")


def test_mujoco_looks_at_no_clock_while_it_steps_and_at_its_own_afterwards():
    mujoco = pytest.importorskip("mujoco")
    maker = EnvironmentFactory("Swimmer-v5", 5, {})
    simulator = simulator_of(maker, 2, False, "direct")
    pointer = stopwatch()
    before = pointer.value
    assert before
    first, second = untimed(pointer), untimed(pointer)  # of two threads, which leave in the order in which they came
    first.__enter__(), second.__enter__()
    assert pointer.value is None
    first.__exit__(None, None, None), second.__exit__(None, None, None)
    assert pointer.value == before
    simulator.begin(0, 0)
    simulator.step(np.array([0]), np.zeros((1, 2), np.float32), np.empty((1, 8), np.float32))
    assert pointer.value == before
    model = simulator._plain.model
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    assert data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration > 0
    simulator.close()


def test_a_mujoco_without_that_pointer_is_stepped_with_its_clock(monkeypatch, caplog):
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.delattr(mujoco, "_structs")
    caplog.set_level(logging.INFO)
    assert stopwatch() is None
    assert "mujoco times the stages of its steps, slower: " in caplog.text
    with untimed(None):
        pass


def test_environments_made_anew_are_those_of_gymnasium():
    maker = EnvironmentFactory("CartPole-v1", 5, {})
    with pytest.raises(ConfigError, match=r"^task\.simulator=direct: with task\.anew=true only auto or gymnasium$"):
        simulator_of(maker, 2, True, "direct")


def test_auto_takes_what_is_quicker():
    pytest.importorskip("mujoco")
    assert isinstance(simulator_of(EnvironmentFactory("Swimmer-v5", 5, {}), 2, False, "auto"), MujocoSimulator)
    with pytest.raises(ConfigError, match=r"^task\.simulator=quick: must be one of auto, gymnasium, direct, envpool$"):
        Reinforcement(id="CartPole-v1", simulator="quick")


@pytest.mark.parametrize(("identifier", "rule"), [("Swimmer-v5", (None, 0.01)), ("Hopper-v5", (None, 10.0))])
def test_steps_that_differ_from_gymnasiums_step_aside(identifier, rule, monkeypatch, caplog):
    """As another release of gymnasium would: observations differ, or rewards and the end."""
    pytest.importorskip("mujoco")
    name = next(name for name in mujoco_batch.RULES if identifier.split("-")[0].lower() in name)
    monkeypatch.setitem(mujoco_batch.RULES, name, rule)
    caplog.set_level(logging.INFO)
    assert isinstance(simulator_of(EnvironmentFactory(identifier, None, {}), 2, False, "auto"), GymnasiumSimulator)
    assert f"{identifier}: stepped by gymnasium: gymnasium's own steps give other numbers" in caplog.text


def test_steps_by_numpy_that_differ_step_aside(monkeypatch, caplog):
    def wrong(plain, states, actions):
        after, seen, rewards, over = classic_control._pendulum(plain, states, actions)
        return after, seen, rewards * (1 + 1e-15), over

    monkeypatch.setitem(classic_control.RULES, "pendulum.PendulumEnv", wrong)
    caplog.set_level(logging.INFO)
    assert isinstance(simulator_of(EnvironmentFactory("Pendulum-v1", 5, {}), 2, False, "auto"), GymnasiumSimulator)
    assert "Pendulum-v1: stepped by gymnasium: gymnasium's own steps give other numbers" in caplog.text
