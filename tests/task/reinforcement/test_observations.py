"""Running statistics of observations against those of all observations at once."""

import numpy as np
import pytest
import torch
from support.made_data import load
from torch import nn

from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.observations import NormalisedPolicy, ObservationStatistics

pytest.importorskip("gymnasium")
import stub_environments  # noqa: F401


def add(statistics: ObservationStatistics, seen: np.ndarray) -> None:
    z = (seen - statistics.mean) / statistics.deviation
    statistics.add(len(seen), z.sum(axis=0), (z**2).sum(axis=0))


def test_batches_give_mean_and_deviation_of_all_that_was_seen():
    random = np.random.default_rng(0)
    batches = [random.normal(k, 1 + k, (50 + 30 * k, 3)) * [1.0, 20.0, 0.3] for k in range(6)]
    statistics = ObservationStatistics(3)
    for batch in batches:
        add(statistics, batch)
    whole = np.concatenate(batches)
    np.testing.assert_allclose(statistics.mean, whole.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(statistics.deviation, whole.std(axis=0), rtol=1e-10)
    assert statistics.count == len(whole)


@pytest.mark.parametrize(("settings", "least"), [({}, 0.1), ({"least_deviation": 0.01}, 0.01)])
def test_a_number_that_stands_still_is_not_blown_up(settings, least):
    task = load(Reinforcement(id="Stub-v0", **settings))
    add(task.statistics, np.array([[1.0, 3.0, -2.0]] * 10))
    assert task.statistics.deviation.tolist() == [least] * 3
    task.restore(task.state())
    assert task.statistics.deviation.tolist() == [least] * 3


def test_a_deployed_policy_normalises_by_itself():
    statistics = ObservationStatistics(2)
    seen = np.random.default_rng(2).normal([5, -3], [2, 7], (500, 2))
    add(statistics, seen)
    policy = NormalisedPolicy(nn.Identity(), statistics, clip=1.5)
    made = policy(torch.from_numpy(seen).float()).numpy()
    wanted = np.clip((seen - seen.mean(axis=0)) / seen.std(axis=0), -1.5, 1.5)
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    assert {name for name, _ in policy.named_buffers()} == {"mean", "inverse"}
