"""Actions lie within the Box of an environment, in its own dtype."""

import numpy as np
import pytest
import torch
from support.made_data import load
from torch import nn

pytest.importorskip("gymnasium")

from gymnasium.spaces import Box
from stub_environments import Taking

from neuro_cli.task.reinforcement import Reinforcement
from neuro_cli.task.reinforcement.actions import actions_of
from neuro_cli.task.reinforcement.environment import Spaces

INT64 = np.iinfo(np.int64)


def actions(low, high, dtype, outputs, scaled=False) -> np.ndarray:
    box = Box(low, high, (1,), np.dtype(dtype).type)
    made, good = actions_of(Spaces((3,), 0, 0, box.low, box.high, scaled), np.array(outputs, np.float32)[:, None])
    assert good
    assert made.dtype == box.dtype
    assert all(box.contains(row) for row in made)
    return made[:, 0]


@pytest.mark.parametrize(
    ("low", "high", "dtype", "outputs", "wanted"),
    [
        (0, 10, "int32", [9.99, 0.99, 0.49, 2.5, 1e30, -1e30, -0.4], [10, 1, 0, 2, 10, 0, 0]),
        (INT64.min, INT64.max, "int64", [1e30, -1e30, 3.6], [INT64.max, INT64.min, 4]),
        (0, 2**64 - 1, "uint64", [1e30, -5.0, 7.2], [2**64 - 1, 0, 7]),
        (0, 255, "uint8", [255.4, 300.0, -1.0, 12.7], [255, 255, 0, 13]),
        (-0.1, 0.1, "float64", [9.0, -9.0, 0.05], [0.1, -0.1, float(np.float32(0.05))]),
        (-np.pi, np.pi, "float64", [9.0, -9.0], [np.pi, -np.pi]),
        (-0.1, 0.1, "float16", [9.0, 0.05], [np.float16(0.1), np.float16(0.05)]),
        (-0.1, 0.1, "float32", [9.0, 0.05], [np.float32(0.1), np.float32(0.05)]),
        (-np.inf, np.inf, "float64", [1e30], [float(np.float32(1e30))]),
    ],
)
def test_outputs_are_cut_off_in_the_dtype_of_the_box(low, high, dtype, outputs, wanted):
    assert actions(low, high, dtype, outputs).tolist() == np.array(wanted, dtype).tolist()


@pytest.mark.parametrize(
    ("low", "high", "dtype", "outputs", "wanted"),
    [
        (-1, 1, "float32", [0.3, -0.7, 1e-20, 2.0], [0.3, -0.7, 1e-20, 1.0]),  # the very bits
        (-2, 2, "float32", [0.5, 1.0, -9.0], [1.0, 2.0, -2.0]),
        (0, 1, "float64", [-1.0, 0.0, 1.0], [0.0, 0.5, 1.0]),
        (0, 10, "int32", [-1.0, 0.1, 0.5, 3.0], [0, 6, 8, 10]),
        (-3e38, 3e38, "float32", [1.0, 0.5, -7.0], [3e38, 1.5e38, -3e38]),
    ],
)
def test_scaled_outputs_span_the_box(low, high, dtype, outputs, wanted):
    made = actions(low, high, dtype, outputs, scaled=True).tolist()
    assert made == np.array(np.array(wanted, np.float32), dtype).tolist()


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_an_output_that_is_no_number_is_told(dtype):
    spaces = Spaces((3,), 0, 0, np.zeros(2, dtype), np.ones(2, dtype))
    assert not actions_of(spaces, np.array([[0.5, np.nan]], np.float32))[1]


@pytest.mark.parametrize(("low", "high", "dtype"), [(-0.1, 0.1, "float64"), (0, 3, "int64")])
def test_an_environment_that_asserts_its_box_is_played(low, high, dtype):
    task = load(Reinforcement("Taking-v0", options={"low": low, "high": high, "dtype": dtype}))
    policy = nn.Linear(3, 2)
    with torch.no_grad():
        policy.weight.mul_(100)
    Taking.TAKEN.clear()
    task.example_scores(policy, task.batch(0, 0, 2))
    assert {action.dtype for action in Taking.TAKEN} == {np.dtype(dtype)}
    assert np.max(Taking.TAKEN) == high
    assert np.min(Taking.TAKEN) == low
