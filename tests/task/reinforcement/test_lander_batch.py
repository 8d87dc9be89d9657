"""LunarLanders stepped by compiled loops on Box2D against gymnasium's own steps, through flights, landings and crashes."""

import logging

import numpy as np
import pytest

from neuro_cli.core.layout import ParameterLayout
from neuro_cli.task.reinforcement import lander_batch, lander_kernels
from neuro_cli.task.reinforcement.environment import EnvironmentFactory
from neuro_cli.task.reinforcement.episodes import Normaliser
from neuro_cli.task.reinforcement.policies import ChainPolicies, chain_of
from neuro_cli.task.reinforcement.simulators import GymnasiumSimulator, simulator_of
from neuro_cli.task.reinforcement.task import Reinforcement, plan_of

pytest.importorskip("Box2D")

MAKER = EnvironmentFactory("LunarLander-v3", None, {})


def episodes_of_gymnasium(seeds: range) -> list:
    """Of every seed: actions of gymnasium's own pilot, at random in odd seeds' every third step, observations, and return."""
    from gymnasium.envs.box2d.lunar_lander import heuristic

    played, environment = [], MAKER.make()
    for seed in seeds:
        rng, actions, total = np.random.default_rng(seed), [], 0.0
        seen = [environment.reset(seed=seed)[0]]
        over = False
        while not over:
            at_random = seed % 2 and len(actions) % 3 == 0
            actions.append(int(rng.integers(4) if at_random else heuristic(environment.unwrapped, seen[-1])))
            observation, reward, terminated, truncated, _ = environment.step(actions[-1])
            seen.append(observation)
            total += float(reward)
            over = terminated or truncated
        played.append((actions, seen, total))
    environment.close()
    return played


def test_landings_and_crashes_have_the_bits_of_gymnasium():
    """More worlds than one vector has lanes; each drops out when its episode is over, so rows and lanes change."""
    size = lander_kernels.LANES + 5
    wanted = episodes_of_gymnasium(range(size))
    simulator = simulator_of(MAKER, size, False, "direct")
    assert isinstance(simulator, lander_batch.LanderSimulator)
    for seed in range(size):
        np.testing.assert_array_equal(simulator.begin(seed, seed), wanted[seed][1][0])
    slots, number = np.arange(size), 0
    while len(slots):
        raw = np.empty((len(slots), 8), np.float32)
        over = simulator.step(slots, [wanted[slot][0][number] for slot in slots], raw)
        number += 1
        for row, slot in enumerate(slots):
            actions, seen, total = wanted[slot]
            np.testing.assert_array_equal(raw[row], seen[number], err_msg=f"episode {slot}, step {number}")
            assert (row in over) == (number == len(actions))
            if row in over:
                assert simulator.total(slot) == total
        slots = np.delete(slots, over)[::-1].copy()
    simulator.close()
    totals = [total for _, _, total in wanted]
    assert max(totals) > 200
    assert min(totals) < -50


@pytest.mark.parametrize("where", ["PLACE", "ANGLE", "LOWER", "BODY_A"])
def test_another_layout_is_not_touched(where, monkeypatch, caplog):
    """A Box2D whose objects are laid out otherwise is driven from Python, and the log says so."""
    monkeypatch.setattr(lander_kernels, where, getattr(lander_kernels, where) + 8)
    caplog.set_level(logging.INFO)
    simulator = simulator_of(MAKER, 2, False, "auto")
    assert isinstance(simulator, GymnasiumSimulator)
    assert "LunarLander-v3: Box2D driven from Python, slower: Box2D keeps its " in caplog.text


def test_a_library_without_the_functions_is_not_touched(monkeypatch, caplog):
    monkeypatch.setattr(lander_kernels, "FUNCTIONS", ("_ZN7b2World4WalkEv",))
    caplog.set_level(logging.INFO)
    assert isinstance(simulator_of(MAKER, 2, False, "direct"), GymnasiumSimulator)
    assert "slower: Box2D has no function of this name" in caplog.text


def test_an_episode_that_goes_otherwise_is_noticed(monkeypatch, caplog):
    """Other rewards: a library whose numbers differ is driven from Python."""
    monkeypatch.setattr(lander_batch.LanderSimulator, "total", lambda self, slot: 0.0)
    caplog.set_level(logging.INFO)
    assert isinstance(simulator_of(MAKER, 2, False, "auto"), GymnasiumSimulator)
    assert "slower: an episode goes otherwise than by gymnasium" in caplog.text


@pytest.mark.parametrize("normalised", [False, True])
def test_policies_answered_in_compiled_code_play_the_episodes_of_gymnasium(normalised):
    """Linear policies, one without numbers; episodes outlast what is drawn at once, and begin while others run."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    parameters = rng.normal(0, 0.5, (6, 36)).astype(np.float32)
    parameters[:2] *= 0  # nothing fires, so both fall
    parameters[2, 5] = np.nan
    seeds = np.arange(18).reshape(6, 3)
    normaliser = Normaliser(np.full(8, 0.1, np.float32), np.full(8, 1.5, np.float32), 2.0) if normalised else None
    outcomes = []
    for choice in ("gymnasium", "direct"):
        task = Reinforcement(id="LunarLander-v3", simulator=choice, environments=5, normalise=normalised)
        task.load(input_shape=None, device=torch.device("cpu"), seed=0, batch_size=1)
        module = torch.nn.Sequential(torch.nn.Linear(8, 4))
        chain = chain_of(module, ParameterLayout(module))
        outcomes.append(task.play(plan_of(seeds), ChainPolicies(chain, parameters), normaliser))
    wanted, made = outcomes
    np.testing.assert_array_equal(made.returns, wanted.returns)
    np.testing.assert_array_equal(made.steps, wanted.steps)
    np.testing.assert_array_equal(made.sums, wanted.sums)
    assert np.isnan(made.returns).tolist() == [policy == 2 for policy in range(6) for _ in range(3)]


def test_random_numbers_run_out_in_the_middle_of_an_episode(monkeypatch):
    """Numbers drawn a few at a time are those drawn at once."""
    torch = pytest.importorskip("torch")
    returns = []
    for block in (lander_batch.BLOCK, 6):
        monkeypatch.setattr(lander_batch, "BLOCK", block)
        task = Reinforcement(id="LunarLander-v3", simulator="direct", environments=2, normalise=False)
        task.load(input_shape=None, device=torch.device("cpu"), seed=0, batch_size=1)
        module = torch.nn.Sequential(torch.nn.Linear(8, 4))
        chain = chain_of(module, ParameterLayout(module))
        parameters = np.random.default_rng(4).normal(0, 0.5, (3, 36)).astype(np.float32)
        returns.append(task.play(plan_of(np.arange(3)[:, None]), ChainPolicies(chain, parameters), None).returns)
    np.testing.assert_array_equal(returns[0], returns[1])


def test_another_box2d_is_not_touched(monkeypatch):
    monkeypatch.setattr("Box2D.__version__", "2.4.0")
    made = MAKER.make()
    assert lander_batch.unlike(made) == "Box2D 2.4.0 is none that was looked into, which is 2.3.10"
    made.close()
